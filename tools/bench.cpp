// How fast the machine trains a model: whole steps by job and phase, every job against the machine's own
// roofs, two configurations in turns. Speeds are shares of peaks measured in the same run.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/field_text.h"
#include "base/json_config.h"
#include "tools/commands.h"
#include "train/bench.h"
#include "train/peaks.h"
#include "train/variants.h"

namespace strata::tools {
namespace {

using device::Phase;
using train::BenchRun;
using train::JobTime;
using train::Roofs;
using Json = nlohmann::ordered_json;

train::RunConfig load(const ConfigArguments& a) {
  train::RunConfig config;
  load_config(config, a.file, a.overrides);
  if (config.backend.threads > 0) omp_set_num_threads(int(config.backend.threads));
  return config;
}

Roofs measure(const train::RunConfig& config) {
  return {.flops = train::square_gemm_peak(config.precision.dtype()), .bytes = train::copy_peak()};
}

std::string text(const Roofs& r, const train::RunConfig& config) {
  char line[160];
  std::snprintf(line, sizeof line, "%d threads; roofs: %.1f GFLOP/s (gemm, %s), %.1f GB/s (copy)",
                omp_get_max_threads(), r.flops / 1e9, std::string(name_of(config.precision.compute)).c_str(),
                r.bytes / 1e9);
  return line;
}

// What the rows of a run add up to under another key.
template <class Key, class Function>
std::map<Key, JobTime> grouped(const BenchRun& run, Function key) {
  std::map<Key, JobTime> sums;
  for (const auto& [job, time] : run.jobs()) sums[key(job)].add(time);
  return sums;
}

template <class Key>
std::vector<std::pair<Key, JobTime>> slowest_first(const std::map<Key, JobTime>& times) {
  std::vector<std::pair<Key, JobTime>> rows(times.begin(), times.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return rows;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

struct Step {
  train::RunConfig config;
  Roofs roofs;
  BenchRun run;

  double steps() const { return double(run.seconds().size()); }
  double seconds() const { return train::median(run.seconds()); }
  double all_seconds() const {
    double sum = 0;
    for (const double s : run.seconds()) sum += s;
    return sum;
  }
  double in_jobs() const {
    double sum = 0;
    for (const auto& [job, time] : run.jobs()) sum += time.seconds;
    return sum;
  }
  double of_peak() const { return run.flops() / seconds() / roofs.flops; }
};

Step take_steps(const train::RunConfig& config, const Roofs& roofs, std::int64_t steps) {
  Step s{config, roofs, BenchRun(config, roofs)};
  for (std::int64_t i = 0; i < steps; ++i) s.run.step();
  return s;
}

Json to_json(const JobTime& t, double steps) {
  return {{"calls", double(t.calls) / steps},
          {"seconds", t.seconds / steps},
          {"flops", t.flops / steps},
          {"bytes", t.bytes / steps},
          {"of_roof", t.seconds > 0 ? t.roof_seconds / t.seconds : 0}};
}

// ---- step

void print_step(const Step& s) {
  const auto by_phase = grouped<Phase>(s.run, [](const train::JobKey& k) { return k.phase; });
  const auto by_name = grouped<std::string>(s.run, [](const train::JobKey& k) { return k.name; });
  const auto by_both = grouped<std::pair<std::string, Phase>>(
      s.run, [](const train::JobKey& k) { return std::pair(k.name, k.phase); });
  const auto ms = [&](double seconds) { return 1e3 * seconds / s.steps(); };
  std::printf("\n%s %s: %.3f s a step, %.1f tokens/s, %.1f%% of the gemm peak; %.1f%% of the time in jobs\n",
              std::string(name_of(s.config.model.residual.type)).c_str(),
              std::string(name_of(s.config.precision.compute)).c_str(), s.seconds(),
              s.run.tokens() / s.seconds(), 100 * s.of_peak(), percent(s.in_jobs(), s.all_seconds()));
  std::printf("%-24s %7s", "milliseconds a step", "calls");
  for (int p = 0; p < device::kPhases; ++p) std::printf(" %10s", std::string(name_of(Phase(p))).c_str());
  std::printf(" %10s %7s %8s\n", "in all", "share", "of roof");
  const auto line = [&](const std::string& name, const JobTime& all, const auto& of_phase) {
    std::printf("%-24s %7.0f", name.c_str(), double(all.calls) / s.steps());
    for (int p = 0; p < device::kPhases; ++p) std::printf(" %10.2f", ms(of_phase(Phase(p))));
    std::printf(" %10.2f %6.1f%% %7.0f%%\n", ms(all.seconds), percent(all.seconds, s.all_seconds()),
                percent(all.roof_seconds, all.seconds));
  };
  JobTime total;
  for (const auto& [phase, time] : by_phase) total.add(time);
  line("all jobs", total, [&](Phase p) { return by_phase.contains(p) ? by_phase.at(p).seconds : 0.0; });
  for (const auto& [name, time] : slowest_first(by_name))
    line("  " + name, time, [&, name = name](Phase p) {
      const auto found = by_both.find({name, p});
      return found == by_both.end() ? 0.0 : found->second.seconds;
    });
}

Json step_json(const Step& s) {
  Json jobs = Json::array();
  for (const auto& [key, time] : slowest_first(grouped<std::pair<std::string, Phase>>(
           s.run, [](const train::JobKey& k) { return std::pair(k.name, k.phase); }))) {
    Json row{{"job", key.first}, {"phase", name_of(key.second)}};
    row.update(to_json(time, s.steps()));
    jobs.push_back(row);
  }
  return {{"residual", name_of(s.config.model.residual.type)},
          {"precision", name_of(s.config.precision.compute)},
          {"seconds", s.run.seconds()},
          {"median_seconds", s.seconds()},
          {"tokens", s.run.tokens()},
          {"flops", s.run.flops()},
          {"of_gemm_peak", s.of_peak()},
          {"in_jobs", s.in_jobs() / s.all_seconds()},
          {"gemm_peak", s.roofs.flops},
          {"copy_peak", s.roofs.bytes},
          {"jobs", jobs}};
}

residual::Type residual_type(const std::string& name) {
  const auto names = enum_names(residual::Type());
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InputError(concat("bench step: --residual is \"", name, "\", allowed is ", choice_text(names)));
  return residual::Type(found - names.begin());
}

// The configuration itself, or the same model with other residual connections and precisions.
std::vector<train::RunConfig> variants(const BenchArguments& a) {
  std::vector<train::RunConfig> all;
  for (const std::string& precision : a.precisions.empty() ? std::vector<std::string>(1) : a.precisions) {
    ConfigArguments from = a.config;
    if (!precision.empty()) from.overrides.push_back("precision.compute=" + precision);
    const train::RunConfig own = load(from);
    if (a.residuals.empty()) all.push_back(own);
    for (const std::string& type : a.residuals) all.push_back(train::with_residual(own, residual_type(type)));
  }
  return all;
}

// ---- ops

void print_ops(const Step& s) {
  std::printf("%-24s %-10s %6s %10s %10s %9s %9s %9s %7s %8s\n", "job", "phase", "calls", "ms a call",
              "MFLOP", "MB", "GFLOP/s", "GB/s", "share", "of roof");
  for (const auto& [key, t] : slowest_first(s.run.jobs())) {
    const double calls = double(t.calls);
    std::printf("%-24s %-10s %6.0f %10.3f %10.1f %9.2f %9.1f %9.1f %6.1f%% %4.0f%% %s\n", key.name.c_str(),
                std::string(name_of(key.phase)).c_str(), calls / s.steps(), 1e3 * t.seconds / calls,
                key.flops / 1e6, key.bytes / 1e6, t.flops / t.seconds / 1e9, t.bytes / t.seconds / 1e9,
                percent(t.seconds, s.all_seconds()), percent(t.roof_seconds, t.seconds),
                key.flops / s.roofs.flops > key.bytes / s.roofs.bytes ? "gemm" : "copy");
  }
}

Json ops_json(const Step& s) {
  Json rows = Json::array();
  for (const auto& [key, time] : slowest_first(s.run.jobs())) {
    Json row{{"job", key.name},
             {"phase", name_of(key.phase)},
             {"call_flops", key.flops},
             {"call_bytes", key.bytes}};
    row.update(to_json(time, s.steps()));
    rows.push_back(row);
  }
  return {{"gemm_peak", s.roofs.flops}, {"copy_peak", s.roofs.bytes}, {"jobs", rows}};
}

}  // namespace

int bench_step(const BenchArguments& a) {
  Json all = Json::array();
  std::map<DType, Roofs> roofs;
  for (const train::RunConfig& config : variants(a)) {
    const auto [found, is_new] = roofs.try_emplace(config.precision.dtype());
    if (is_new) found->second = measure(config);
    if (is_new && !a.json) std::printf("%s\n", text(found->second, config).c_str());
    const Step s = take_steps(config, found->second, a.steps);
    if (a.json)
      all.push_back(step_json(s));
    else
      print_step(s);
    std::fflush(stdout);
  }
  if (a.json) std::printf("%s\n", all.dump(2).c_str());
  return 0;
}

int bench_ops(const BenchArguments& a) {
  const train::RunConfig config = load(a.config);
  const Step s = take_steps(config, measure(config), a.steps);
  if (a.json) {
    std::printf("%s\n", ops_json(s).dump(2).c_str());
    return 0;
  }
  std::printf("%s\n", text(s.roofs, config).c_str());
  print_ops(s);
  return 0;
}

int bench_compare(const BenchArguments& a) {
  const train::RunConfig first = load(a.config), second = load({a.other, a.config.overrides});
  const Roofs none{.flops = 1, .bytes = 1};
  BenchRun one(first, none), two(second, none);
  std::vector<double> ratios;
  for (std::int64_t i = 0; i < a.steps; ++i) {
    const bool turned = i % 2;  // who goes first changes
    const double early = (turned ? two : one).step(), late = (turned ? one : two).step();
    ratios.push_back(turned ? late / early : early / late);
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const double a_seconds = train::median(one.seconds()), b_seconds = train::median(two.seconds());
  if (a.json) {
    std::printf("%s\n", Json{{"a", {{"config", a.config.file}, {"seconds", one.seconds()}}},
                             {"b", {{"config", a.other}, {"seconds", two.seconds()}}},
                             {"ratio", {{"min", *least}, {"median", train::median(ratios)}, {"max", *most}}}}
                            .dump(2)
                            .c_str());
    return 0;
  }
  std::printf("A %s: %.3f s a step\nB %s: %.3f s a step\n", a.config.file.c_str(), a_seconds, a.other.c_str(),
              b_seconds);
  std::printf("A / B, step by step in turns: median %.4f, from %.4f to %.4f in %lld pairs\n",
              train::median(ratios), *least, *most, (long long)a.steps);
  return 0;
}

}  // namespace strata::tools
