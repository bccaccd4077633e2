// The proof that layouts change nothing: some training steps of a configuration on one rank and under each
// layout, on ranks that are threads of this process; same weights, same global batch. What is compared: the
// losses and gradient norm of each step, all gradients and router loads of the first, all weights at the end.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "base/philox.h"
#include "data/dataset.h"
#include "pipeline/validate.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/layouts.h"
#include "tools/plan_layout.h"
#include "train/trace.h"
#include "train/traffic.h"

namespace strata::tools {
namespace {

using train::Difference;
using train::TraceTensors;

constexpr std::int64_t kMostThreads = 1024;

struct Run {
  TraceTensors tensors;
  std::vector<train::Traffic> sent;  // by rank, in one step
  double bubble = 0;
};

// Runs of tokens that no data is needed for, in documents where the model is to see their ends.
HostBatch random_batch(const train::RunConfig& c) {
  const std::int64_t rows = c.training.batch_size(), length = c.training.seq_length;
  const Philox random(std::uint64_t(c.run.seed), "verify-layout");
  HostBatch batch{.rows = rows, .length = length, .input_ids = {}, .labels = {}, .documents = {}};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t t = 0, document = 0; t < length; ++t) {
      const auto token = [&](std::int64_t at) {
        return std::int64_t(random.bits(r * (length + 1) + at) % std::uint64_t(c.model.vocab_size));
      };
      batch.input_ids.push_back(token(t));
      batch.labels.push_back(token(t + 1));
      if (!c.data.reset_attention_mask) continue;
      batch.documents.push_back(document);
      document += token(t) % 16 == 0;
    }
  return batch;
}

HostBatch first_batch(const train::RunConfig& c) {
  if (c.data.train.empty()) return random_batch(c);
  const std::int64_t rows = c.training.batch_size();
  return data::TrainingData(c.data, c.training.seq_length, std::uint64_t(c.run.seed), c.model.vocab_size,
                            rows)
      .batch(0, rows);
}

// ---- what is compared

constexpr const char* kLoss = "loss";
constexpr const char* kNorm = "grad_norm";

// Scalars of each step under a name of their own, "loss@2"; the first step's once.
TraceTensors by_step(TraceTensors t) {
  for (const auto& [from, to] : {std::pair{"train.loss", kLoss}, {"train.grad_norm", kNorm}}) {
    const std::vector<double> values = t.at(from).values;
    for (std::size_t i = 0; i < values.size(); ++i) t[concat(to, "@", i + 1)] = {{1}, {values[i]}};
    t.erase(from);
  }
  t.erase("loss");
  return t;
}

struct Place {
  int step, kind;  // kind: the order in which numbers of a step come about
  std::string tensor;
};

Place place_of(const std::string& name, int steps) {
  if (name.starts_with("trained.")) return {steps, 4, name};
  if (name.starts_with("grad.")) return {1, 2, name};
  if (name.starts_with("expert_load.")) return {1, 1, name};
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return {1, 0, name};
  const std::string tensor = name.substr(0, at);
  return {std::stoi(name.substr(at + 1)), tensor == kNorm ? 3 : 0, tensor};
}

// The element that differs most.
struct Element {
  std::size_t index = 0;
  double one_rank = 0, here = 0;
};

Element worst_element(const std::vector<double>& want, const std::vector<double>& got) {
  Element e;
  double most = -1;
  for (std::size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    if (const double d = std::abs(want[i] - got[i]); d > most || std::isnan(d)) {
      e = {i, want[i], got[i]};
      if (std::isnan(d)) break;
      most = d;
    }
  return e;
}

struct Verdict {
  Layout layout;
  Run run;
  Difference worst;
  std::optional<Difference> first;  // beyond tolerance
  Element element;                  // of `first`
};

Verdict judge(const Layout& layout, Run run, const TraceTensors& want, double tolerance, int steps) {
  run.tensors = by_step(std::move(run.tensors));
  // Which experts tokens go to is no matter of rounding.
  const auto tolerances = [&](const std::string& name) {
    return name.starts_with("expert_load.") ? 0 : tolerance;
  };
  const std::vector<Difference> all = train::compare(run.tensors, want, tolerances);
  Verdict v{layout, {}, all.at(0), {}, {}};
  const auto key = [&](const Difference& d) {
    const Place p = place_of(d.name, steps);
    return std::pair(p.step, p.kind);
  };
  for (const Difference& d : all)  // the worst of a kind is the first
    if (!d.within() && (!v.first || key(d) < key(*v.first))) v.first = d;
  if (v.first && v.first->missing.empty())
    v.element = worst_element(want.at(v.first->name).values, run.tensors.at(v.first->name).values);
  v.run = std::move(run);
  v.run.tensors.clear();
  return v;
}

Run run(const Layout& layout, const HostBatch& batch, std::int64_t steps) {
  Run run;
  run.sent.resize(layout.ranks);
  train::RunConfig config = layout.config;
  config.backend.threads_ranks = layout.ranks;
  launch_threads(config, [&](const comm::Mesh& mesh) {
    const int rank = mesh.world().rank();
    device::Device device;
    train::Trainer trainer(config, device, mesh);
    TraceTensors tensors = train::trace(trainer, config, batch, steps, train::Seen::NoTokens);
    const train::Traffic before = train::sent(trainer);
    trainer.step(batch);
    run.sent[rank] = train::sent(trainer) - before;
    if (rank != 0) return 0;
    run.tensors = std::move(tensors);
    const int micro_batches = int(trainer.micro_batches(batch).size());
    run.bubble = pipeline::validate(trainer.schedule(micro_batches)).bubble;
    return 0;
  });
  return run;
}

// ---- what is said

std::string name_text(const Place& p) { return concat("step ", p.step, " ", p.tensor); }

// Of the first column.
int width(const std::vector<Layout>& layouts) {
  std::size_t most = 16;
  for (const Layout& l : layouts) most = std::max(most, l.text.size());
  return int(most);
}

void print_title(const train::RunConfig& c, const TraceTensors& want, int steps, double tolerance,
                 int width) {
  std::printf("%d steps of %lld x %lld tokens (%s), %s, tolerance %.2g; loss on one rank", steps,
              (long long)c.training.batch_size(), (long long)c.training.seq_length,
              c.data.train.empty() ? "random" : "data.train",
              std::string(name_of(c.precision.compute)).c_str(), tolerance);
  for (int s = 1; s <= steps; ++s)
    std::printf("%s %.6f", s > 1 ? "," : "", want.at(concat(kLoss, "@", s)).values[0]);
  std::printf("\n\n%-*s %6s %8s %12s  %s\n", width, "layout", "ranks", "bubble", "difference", "worst at");
  std::fflush(stdout);
}

std::string bytes_text(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f MB", double(bytes) / 1e6);
  return text;
}

void print(const Verdict& v, int steps, int width) {
  const Place worst = place_of(v.worst.name, steps);
  std::printf("%-*s %6d %7.1f%% %12.1e  %s\n", width, v.layout.text.c_str(), v.layout.ranks,
              100 * v.run.bubble, v.worst.value,
              v.worst.value > 0 ? name_text(worst).c_str() : "the same bits");
  for (std::size_t r = 0; r < v.run.sent.size(); ++r) {
    const train::Traffic& t = v.run.sent[r];
    std::printf("  rank %-3zu sends a step %14s pipeline, %12s all-to-all, %12s reductions\n", r,
                bytes_text(t.pipeline.bytes).c_str(), bytes_text(t.experts.bytes).c_str(),
                bytes_text(t.reductions.bytes).c_str());
  }
  if (v.first) {
    const Difference& d = *v.first;
    std::printf("  differs first in %s: ", name_text(place_of(d.name, steps)).c_str());
    if (d.missing.empty())
      std::printf("%.3e, allowed is %.2g; element %zu is %.17g on one rank, %.17g here\n", d.value,
                  d.tolerance, v.element.index, v.element.one_rank, v.element.here);
    else
      std::printf("%s\n", d.missing.c_str());
  }
  std::fflush(stdout);
}

nlohmann::ordered_json difference_json(const Difference& d, int steps) {
  const Place p = place_of(d.name, steps);
  nlohmann::ordered_json j{{"step", p.step}, {"tensor", p.tensor}, {"difference", d.value}};
  if (!d.missing.empty()) j["missing"] = d.missing;
  return j;
}

nlohmann::ordered_json json_of(const Verdict& v, int steps) {
  nlohmann::ordered_json j{{"layout", v.layout.text},
                           {"ranks", v.layout.ranks},
                           {"equal", !v.first},
                           {"worst", difference_json(v.worst, steps)},
                           {"bubble", v.run.bubble}};
  if (v.first) {
    j["first"] = difference_json(*v.first, steps);
    j["first"]["element"] = v.element.index;
    j["first"]["one_rank"] = v.element.one_rank;
    j["first"]["here"] = v.element.here;
  }
  for (const train::Traffic& t : v.run.sent) j["sent_per_step"].push_back(traffic_json(t));
  return j;
}

// Sums in another order differ by rounding: 1e-16 in float64, 6e-8 in float32, which steps of Adam multiply
// where gradients are close to 0, so that float32 weights differ by some 3e-5 after three. In bfloat16 they
// differ by 6e-2: no bound that a fault would break.
double default_tolerance(train::Compute compute) {
  if (compute == train::Compute::BFloat16)
    throw InputError(
        "precision.compute bfloat16 has no tolerance that proves a layout: leave it at float64, or give "
        "--tolerance");
  return compute == train::Compute::Float64 ? 1e-9 : 1e-4;
}

}  // namespace

int verify_layout(const VerifyLayoutArguments& a) {
  train::RunConfig config;
  const auto origins = load_config(config, a.config.file, a.config.overrides);
  const ValueOrigin left_open{"precision.compute", Origin::Default};
  if (std::find(origins.begin(), origins.end(), left_open) != origins.end())
    config.precision.compute = train::Compute::Float64;
  const std::vector<Layout> layouts = parse_layouts(config, a.layouts, kMostThreads);
  const HostBatch batch = first_batch(config);
  const int steps = int(a.steps);
  const double tolerance = a.tolerance ? *a.tolerance : default_tolerance(config.precision.compute);
  const TraceTensors want = by_step(run(one_rank(config), batch, steps).tensors);
  nlohmann::ordered_json j{{"steps", steps},
                           {"compute", name_of(config.precision.compute)},
                           {"tolerance", tolerance},
                           {"layouts", nlohmann::ordered_json::array()}};
  for (int s = 1; s <= steps; ++s) j["loss"].push_back(want.at(concat(kLoss, "@", s)).values[0]);
  if (!a.json) print_title(config, want, steps, tolerance, width(layouts));
  int unequal = 0;
  for (const Layout& layout : layouts) {
    const Verdict v = judge(layout, run(layout, batch, steps), want, tolerance, steps);
    unequal += v.first.has_value();
    if (a.json)
      j["layouts"].push_back(json_of(v, steps));
    else
      print(v, steps, width(layouts));
  }
  if (a.json)
    std::printf("%s\n", j.dump(2).c_str());
  else
    std::printf("\n%s\n", unequal == 0 ? "all equal one rank"
                                       : concat(unequal, " of ", layouts.size(), " differ").c_str());
  return unequal == 0 ? 0 : 1;
}

}  // namespace strata::tools
