// A pipeline schedule as a grid of what each rank does when, one column per unit of time, with its bubble and
// what each rank holds at most. Forward takes one unit, backward two: one for inputs, one for weights.
#include "pipeline/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/field_text.h"
#include "base/fields.h"
#include "base/json_config.h"
#include "pipeline/validate.h"
#include "tools/commands.h"
#include "tools/layouts.h"
#include "tools/nearest.h"
#include "train/layout_plan.h"

namespace strata::tools {
namespace {

using pipeline::Schedule;
using pipeline::ScheduleKind;
using pipeline::ScheduleReport;

ScheduleKind kind_of(const std::string& word) {
  constexpr auto kNames = enum_names(ScheduleKind{});
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == word) return ScheduleKind(i);
  throw InputError(concat("schedule: --schedule is \"", word, "\", nearest is ", nearest(kNames, word),
                          ", allowed is ", choice_text(kNames)));
}

constexpr std::int64_t kMost = 1 << 20;  // forwards

Schedule schedule_of(const ScheduleArguments& a) {
  const ScheduleKind kind = kind_of(a.schedule);
  const pipeline::StageCount allowed = pipeline::stages_per_rank(kind);
  if (!allowed.allows(a.virtual_stages))
    throw InputError(concat("schedule: --virtual is ", a.virtual_stages, ", with --schedule ", a.schedule,
                            " allowed is ", allowed.most == 1 ? "" : "at least ", allowed.least));
  if (std::int64_t(a.pipeline) * a.virtual_stages * a.micro_batches > kMost)
    throw InputError(concat("schedule: --pipeline ", a.pipeline, " times --virtual ", a.virtual_stages,
                            " times --micro-batches ", a.micro_batches, " is more than the ", kMost,
                            " forwards that can be shown"));
  return pipeline::make_schedule(kind, a.pipeline, a.virtual_stages, a.micro_batches);
}

// What the configuration's first data-parallel rank runs.
ScheduleArguments from_config(ScheduleArguments a) {
  train::RunConfig config;
  load_config(config, a.config.file, a.config.overrides);
  const pipeline::ParallelSection& p = config.parallel;
  const std::int64_t micro_batches = train::micro_batches(config, world_of(config, a.world, "schedule"));
  if (p.stages() * micro_batches > kMost)
    throw InputError(concat(a.config.file, ": ", p.stages(), " stages times ", micro_batches,
                            " micro-batches is more than the ", kMost, " forwards that can be shown"));
  a.schedule = name_of(p.schedule());
  a.pipeline = p.ranks();
  a.virtual_stages = int(p.virtual_pipeline_model_parallel_size);
  a.micro_batches = int(micro_batches);
  return a;
}

// "F3", "F3b" for the second stage of a rank.
std::string cell(const pipeline::Action& a, const Schedule& s) {
  const char* const kLetters = "FBbw";
  std::string text = concat(kLetters[std::size_t(a.kind)], a.micro_batch);
  if (s.stages > s.ranks) text += char('a' + a.stage / s.ranks);
  return text;
}

void print_grid(const Schedule& s, const ScheduleReport& report) {
  const std::size_t width = concat('F', s.micro_batches - 1, s.stages > s.ranks ? "a" : "").size() + 1;
  const std::string last = concat("rank ", s.ranks - 1);
  for (int rank = 0; rank < s.ranks; ++rank) {
    std::string line = concat("rank ", rank);
    line.resize(last.size() + 2, ' ');
    const std::size_t start = line.size();
    const auto units = std::size_t(std::lround(report.length));
    for (std::size_t i = 0; i < units; ++i) line += "." + std::string(width - 1, ' ');
    for (const pipeline::Timed& t : report.times[std::size_t(rank)]) {
      const std::string text = cell(t.action, s);
      for (long i = std::lround(t.begin); i < std::lround(t.end); ++i)
        line.replace(start + std::size_t(i) * width, text.size(), text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

void print_peaks(const char* title, const std::vector<int>& peaks) {
  std::printf("%s", title);
  for (const int n : peaks) std::printf(" %d", n);
  std::printf("\n");
}

void print_text(const Schedule& s, const ScheduleReport& report) {
  print_grid(s, report);
  std::printf("\nbubble %.1f%% of %d x %.0f units: forward takes 1, backward 2%s\n", 100 * report.bubble,
              s.ranks, report.length,
              s.kind == ScheduleKind::ZeroBubble ? " (b: inputs 1, w: weights 1)" : "");
  print_peaks(s.stages > s.ranks ? "in flight at most, by rank, in stages x micro-batches:"
                                 : "micro-batches in flight at most, by rank:",
              report.peak_in_flight);
  if (s.kind == ScheduleKind::ZeroBubble)
    print_peaks("micro-batches whose weights wait at most, by rank:", report.peak_late_weights);
}

void print_json(const ScheduleArguments& a, const ScheduleReport& report) {
  nlohmann::ordered_json j{{"schedule", a.schedule},
                           {"pipeline", a.pipeline},
                           {"virtual", a.virtual_stages},
                           {"micro_batches", a.micro_batches},
                           {"length", report.length},
                           {"bubble", report.bubble},
                           {"peak_in_flight", report.peak_in_flight},
                           {"peak_late_weights", report.peak_late_weights},
                           {"grid", nlohmann::ordered_json::array()}};
  for (const std::vector<pipeline::Timed>& rank : report.times) {
    nlohmann::ordered_json& row = j["grid"].emplace_back(nlohmann::ordered_json::array());
    for (const pipeline::Timed& t : rank)
      row.push_back({{"action", name_of(t.action.kind)},
                     {"stage", t.action.stage},
                     {"micro_batch", t.action.micro_batch},
                     {"begin", t.begin},
                     {"end", t.end}});
  }
  std::printf("%s\n", j.dump(2).c_str());
}

}  // namespace

int schedule(const ScheduleArguments& given) {
  const ScheduleArguments a = given.config.file.empty() ? given : from_config(given);
  const Schedule s = schedule_of(a);
  const ScheduleReport report = pipeline::validate(s);
  if (a.json)
    print_json(a, report);
  else
    print_text(s, report);
  return 0;
}

}  // namespace strata::tools
