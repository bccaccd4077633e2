// The loss of a trained model on whole validation sets: nats and perplexity per token, bits per byte of text.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/field_text.h"
#include "base/json_config.h"
#include "base/log.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/open_model.h"
#include "train/evaluate.h"
#include "train/layout.h"
#include "train/run_text.h"
#include "train/same_on_all.h"
#include "train/weights.h"

namespace strata::tools {
namespace {

using Json = nlohmann::ordered_json;

data::ValidationSource known_set(const data::DataSection& section, const std::string& name) {
  const auto found = section.validation.find(name);
  if (found != section.validation.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, source] : section.validation) names.push_back(known);
  throw InputError(concat("--data: \"", name, "\" is no set of data.validation, which has ",
                          names.empty() ? "none" : join(names, ", "), "; NAME=PREFIX gives another one"));
}

// What is to be evaluated, in place of the configuration's own sets where --data says so.
void choose_sets(data::DataSection& section, const std::vector<std::string>& chosen) {
  std::map<std::string, data::ValidationSource> sets;
  for (const std::string& word : chosen) {
    const std::size_t at = word.find('=');
    const std::string name = word.substr(0, at);
    const std::string path = at == std::string::npos ? known_set(section, name).path : word.substr(at + 1);
    if (name.empty() || path.empty())
      throw InputError(concat("--data: \"", word, "\" is not of the form NAME=PREFIX"));
    if (!sets.emplace(name, data::ValidationSource{path}).second)
      throw InputError(concat("--data: there are two sets of the name \"", name, "\""));
  }
  if (!chosen.empty()) section.validation = std::move(sets);
  section.validate();
  if (section.validation.empty())
    throw InputError("nothing to evaluate on: --data NAME=PREFIX, or data.validation, names token files");
}

struct Result {
  std::string name, path;
  std::int64_t windows_of_set = 0;
  train::Evaluation loss;
};

std::vector<Result> evaluate_all(const train::ModelSource& source, std::optional<std::int64_t> iterations,
                                 const comm::Mesh& mesh) {
  train::RunConfig config = source.config;
  if (mesh.shape().world() == 1) config.parallel = {};
  device::Device device;
  const std::int64_t rows = config.training.batch_size();
  const auto sets = data::open_validation(config.data, config.training.seq_length, config.model.vocab_size);
  if (mesh.shape().world() > 1) train::same_on_all(mesh.all(), train::reads("", sets));
  train::Trainer trainer(config, device, mesh, train::Use::Evaluation);
  train::load_weights(trainer.store(), source.weights, config.model);
  std::vector<Result> all;
  for (const data::ValidationData& set : sets) {
    const std::int64_t windows = iterations ? *iterations * rows : set.windows();
    all.push_back({set.name(), set.path(), set.windows(),
                   *train::evaluate(trainer, set, windows, rows, [] { return true; })});
  }
  if (mesh.world().rank() == 0) log::info(train::memory_line(device, mesh));
  return all;
}

void print_text(const train::ModelSource& source, const std::vector<Result>& all) {
  const train::RunConfig& config = source.config;
  std::printf("%s\n", source.folder.empty() ? source.weights.path.c_str() : source.text().c_str());
  std::size_t width = 3;
  for (const Result& r : all) width = std::max(width, r.name.size());
  std::printf("%-*s  %10s  %12s  %13s  %19s  %12s  %12s\n", int(width), "set", "loss", "perplexity",
              "bits per byte", "windows", "labels", "bytes");
  for (const Result& r : all) {
    char bits[32] = "-", bytes[32] = "-";
    if (r.loss.bits_per_byte) std::snprintf(bits, sizeof bits, "%.6f", *r.loss.bits_per_byte);
    if (r.loss.bytes) std::snprintf(bytes, sizeof bytes, "%lld", (long long)*r.loss.bytes);
    const std::string windows = concat(r.loss.windows, " of ", r.windows_of_set);
    std::printf("%-*s  %10.6f  %12.6g  %13s  %19s  %12lld  %12s\n", int(width), r.name.c_str(), r.loss.loss,
                std::exp(r.loss.loss), bits, windows.c_str(), (long long)r.loss.labels, bytes);
  }
  std::printf(
      "windows of %lld tokens; none begins with a token of its own, the first token of a set is no label; "
      "ends of documents are labels of no bytes%s%s%s\n",
      (long long)config.training.seq_length,
      config.data.eod_mask_loss ? "; first tokens of documents are no labels" : "",
      config.data.reset_attention_mask ? "; tokens see their own document only" : "",
      config.data.tokenizer ? "" : "; bytes are not known without data.tokenizer");
}

void print_json(const train::ModelSource& source, const std::vector<Result>& all) {
  const train::RunConfig& config = source.config;
  Json j{{"model", source.weights.path},
         {"seq_length", config.training.seq_length},
         {"adds_beginning_of_sequence", false},
         {"predicts_end_of_document", true},
         {"predicts_first_of_document", !config.data.eod_mask_loss},
         {"attention_within_documents", config.data.reset_attention_mask}};
  if (!source.folder.empty()) j["step"] = source.step;
  for (const Result& r : all) {
    Json set{{"path", r.path},           {"loss", r.loss.loss},       {"perplexity", std::exp(r.loss.loss)},
             {"bits_per_byte", nullptr}, {"windows", r.loss.windows}, {"windows_of_set", r.windows_of_set},
             {"labels", r.loss.labels},  {"bytes", nullptr}};
    if (r.loss.bits_per_byte) set["bits_per_byte"] = *r.loss.bits_per_byte;
    if (r.loss.bytes) set["bytes"] = *r.loss.bytes;
    j["sets"][r.name] = set;
  }
  std::printf("%s\n", j.dump(2).c_str());
}

}  // namespace

int eval(const EvalArguments& a) {
  train::ModelSource source = open_model(a);
  choose_sets(source.config.data, a.data);
  const auto shape = [&](int ranks) {  // alone, whatever it was trained on
    return ranks == 1 ? comm::MeshShape() : train::mesh_shape(source.config, ranks);
  };
  const auto rank_main = [&](const comm::Mesh& mesh) {
    const std::vector<Result> all = evaluate_all(source, a.iterations, mesh);
    if (mesh.world().rank() != 0) return 0;
    if (a.json)
      print_json(source, all);
    else
      print_text(source, all);
    return 0;
  };
  const std::string iterations = a.iterations ? concat(" --iters ", *a.iterations) : "";
  return launch_watched(concat("eval of ", source.weights.path, iterations), source.config, rank_main, shape);
}

}  // namespace strata::tools
