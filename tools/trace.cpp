// One batch through the model with everything visible, written to a file, compared with a reference, or both.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/json_config.h"
#include "base/log.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "train/batch_file.h"
#include "train/trace.h"
#include "train/weights.h"

namespace strata::tools {
namespace {

using checkpoint::SafetensorsFile;

double number(const SafetensorsFile& file, const std::string& key, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    throw InputError(concat(file.path(), ": metadata ", key, " is \"", text, "\", expected a number"));
  return value;
}

// A reference says with which optimizer it was made ("lr", "weight_decay", "clip", and "optimizer": "adamw
// beta1=0.9 beta2=0.95 eps=1e-6"): those values stand in for what neither the config file nor the command
// line gives.
void take_reference_optimizer(train::RunConfig& config, const std::vector<ValueOrigin>& origins,
                              const SafetensorsFile& reference) {
  const auto& metadata = reference.metadata();
  const auto find = [&](const std::string& key) {
    return metadata.count(key) ? metadata.at(key) : std::string();
  };
  const std::string adamw = find("optimizer") + " ";
  const auto word = [&](const std::string& key) {
    const std::size_t at = adamw.find(" " + key + "=");
    if (at == std::string::npos) return std::string();
    const std::size_t begin = at + key.size() + 2;
    return adamw.substr(begin, adamw.find(' ', begin) - begin);
  };
  std::string taken;
  const auto take = [&](const std::string& key, const std::string& text, double& value) {
    const ValueOrigin left_open{"optimizer." + key, Origin::Default};
    if (text.empty() || std::find(origins.begin(), origins.end(), left_open) == origins.end()) return;
    value = number(reference, key, text);
    taken += concat(taken.empty() ? "" : ", ", key, " ", text);
  };
  optim::OptimizerSection& o = config.optimizer;
  take("lr", find("lr"), o.lr);
  take("weight_decay", find("weight_decay"), o.weight_decay);
  take("clip_grad", find("clip"), o.clip_grad);
  take("beta1", word("beta1"), o.beta1);
  take("beta2", word("beta2"), o.beta2);
  take("eps", word("eps"), o.eps);
  if (taken.empty()) return;
  train::RunConfig checked;  // the same rules as for a file
  load_config_text(checked, config_json(config), reference.path());
  log::info(concat("optimizer, as ", reference.path(), " says: ", taken));
}

void write(const train::TraceTensors& tensors, const std::string& path, DType compute) {
  checkpoint::SafetensorsWriter writer;
  for (const auto& [name, t] : tensors)
    writer.add(name, compute == DType::Float64 ? "F64" : "F32", t.shape, t.values);
  writer.write(path);
}

std::string value_text(const train::Difference& d) {
  if (!d.missing.empty()) return d.missing;
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", d.value);
  return text;
}

// The ten worst, then one line about all; the exit status.
int report(const std::vector<train::Difference>& all) {
  constexpr std::size_t kShown = 10;
  if (all.empty()) throw InputError("the reference holds nothing to compare");
  const std::size_t shown = std::min(kShown, all.size());
  std::size_t width = 6;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, all[i].name.size());
  std::printf("%-*s  difference  tolerance\n", int(width), "tensor");
  for (std::size_t i = 0; i < shown; ++i)
    std::printf("%-*s  %10s  %9.2g%s\n", int(width), all[i].name.c_str(), value_text(all[i]).c_str(),
                all[i].tolerance, all[i].within() ? "" : "  beyond");
  const auto beyond = std::count_if(all.begin(), all.end(), [](const auto& d) { return !d.within(); });
  std::printf("%zu tensors compared, worst %s at %s, %td beyond tolerance\n", all.size(),
              value_text(all[0]).c_str(), all[0].name.c_str(), beyond);
  return beyond == 0 ? 0 : 1;
}

HostBatch load_batch(const std::string& path, std::int64_t vocab_size) {
  HostBatch batch = train::load_batch(path);
  try {
    batch.validate(vocab_size);
  } catch (const InputError& e) {
    throw InputError(concat(path, ": ", e.what()));
  }
  return batch;
}

// Before the work, what would stop its result from being written.
void check_output(const TraceArguments& a) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(a.out, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(concat("--out: ", a.out, " is not a regular file"));
  for (const std::string& input : {a.config.file, a.weights, a.batch, a.compare})
    if (!input.empty() && fs::equivalent(a.out, input, error))
      throw InputError(concat("--out: ", a.out, " is an input of this command"));
  const fs::path folder = fs::absolute(a.out).parent_path();
  if (!fs::is_directory(folder, error)) throw InputError(concat("--out: no folder ", folder.string()));
  if (access(folder.c_str(), W_OK) != 0)
    throw InputError(concat("--out: cannot write in ", folder.string(), ": ", std::strerror(errno)));
}

}  // namespace

int trace(const TraceArguments& a) {
  train::RunConfig config;
  const auto origins = load_config(config, a.config.file, a.config.overrides);
  std::optional<SafetensorsFile> reference;
  if (!a.compare.empty()) {
    reference.emplace(a.compare);
    take_reference_optimizer(config, origins, *reference);
  }
  if (!a.out.empty()) check_output(a);
  const HostBatch batch = load_batch(a.batch, config.model.vocab_size);
  const std::string command =
      concat("trace --weights ", a.weights, " --batch ", a.batch, " --steps ", a.steps);
  return launch_watched(command, config, [&](const comm::Mesh& mesh) {
    device::Device device;
    train::Trainer trainer(config, device, mesh);
    train::load_weights(trainer.store(), checkpoint::named_weights(checkpoint::WeightSet(a.weights)),
                        config.model);
    const train::TraceTensors tensors = train::trace(trainer, config, batch, a.steps);
    if (mesh.world().rank() != 0) return 0;
    if (!a.out.empty()) write(tensors, a.out, config.precision.dtype());
    if (!reference) return 0;
    auto tolerance = train::reference_tolerance(config.precision.dtype());
    if (a.tolerance) tolerance = [r = *a.tolerance](const std::string&) { return r; };
    return report(train::compare(tensors, *reference, tolerance, a.steps > 0));
  });
}

}  // namespace strata::tools
