#include "tools/layouts.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/field_text.h"
#include "tools/nearest.h"

namespace strata::tools {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "1, 2 or 4".
std::string divisors(std::int64_t n) {
  std::vector<std::string> all;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>(n, 1024); ++d)
    if (n % d == 0) all.push_back(std::to_string(d));
  const std::string last = all.back();
  all.pop_back();
  return all.empty() ? last : concat(join(all, ", "), " or ", last);
}

// What fits this model and batch.
std::string valid_text(const train::RunConfig& c) {
  return concat("valid here are pp x v from 1 to ", c.model.num_hidden_layers, " (layers; v above 1 with pp ",
                "above 1), ep ", c.model.has_moe() ? divisors(c.model.n_routed_experts) : "1",
                c.model.has_moe() ? concat(" (divides the ", c.model.n_routed_experts, " experts)") : "",
                ", dp a multiple of ep, mbs ", divisors(c.training.batch_size()), ", schedule ",
                choice_text(enum_names(pipeline::ScheduleKind{})));
}

std::int64_t whole(const std::string& key, const std::string& value) {
  std::int64_t n = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, n);
  if (error != std::errc() || stop != end || n < 1 || n > dimension().high)
    throw InputError(concat(key, " is \"", value, "\", expected is a whole number from 1"));
  return n;
}

pipeline::ScheduleKind kind_of(const std::string& word) {
  constexpr auto kNames = enum_names(pipeline::ScheduleKind{});
  const auto it = std::find(kNames.begin(), kNames.end(), word);
  if (it == kNames.end())
    throw InputError(concat("schedule is \"", word, "\", nearest is ", nearest(kNames, word)));
  return pipeline::ScheduleKind(it - kNames.begin());
}

std::map<std::string, std::string> keys_of(const std::string& text) {
  constexpr std::array<std::string_view, 6> kKeys{"pp", "v", "ep", "dp", "schedule", "mbs"};
  std::map<std::string, std::string> keys;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) throw InputError(concat("\"", part, "\" is no KEY=VALUE"));
    const std::string key = part.substr(0, equals);
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      throw InputError(concat("\"", key, "\" is not a key, nearest is ", nearest(kKeys, key)));
    if (!keys.emplace(key, part.substr(equals + 1)).second) throw InputError(key + " is given twice");
  }
  return keys;
}

// One rank; keys that name none stay.
pipeline::ParallelSection alone(pipeline::ParallelSection p) {
  p.pipeline_model_parallel_size = p.virtual_pipeline_model_parallel_size = p.expert_model_parallel_size = 1;
  p.pipeline_schedule.reset();
  p.pipeline_model_parallel_layout.reset();
  return p;
}

Layout parse(const train::RunConfig& base, const std::string& text, std::int64_t most_ranks) {
  Layout layout{text, 1, base};
  std::map<std::string, std::string> keys = keys_of(text);
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return keys.count(key) ? whole(key, keys[key]) : otherwise;
  };
  pipeline::ParallelSection& p = layout.config.parallel = alone(base.parallel);
  p.pipeline_model_parallel_size = number("pp", 1);
  p.virtual_pipeline_model_parallel_size = number("v", 1);
  p.expert_model_parallel_size = number("ep", 1);
  if (keys.count("schedule")) p.pipeline_schedule = kind_of(keys["schedule"]);
  const std::int64_t data = number("dp", p.expert_model_parallel_size);
  if (data % p.expert_model_parallel_size != 0)
    throw InputError(concat("dp ", data, " is not a multiple of ep ", p.expert_model_parallel_size));
  layout.config.training.micro_batch_size = number("mbs", base.training.micro_batch_size);
  if (!base.training.global_batch_size) layout.config.training.global_batch_size = base.training.batch_size();
  const std::int64_t ranks = p.pipeline_model_parallel_size * data;
  if (ranks > most_ranks)
    throw InputError(concat("it has ", ranks, " ranks, at most ", most_ranks, " are allowed"));
  layout.ranks = int(ranks);
  const auto& layers = base.parallel.pipeline_model_parallel_layout;
  if (layers && int(layers->size()) == p.stages()) p.pipeline_model_parallel_layout = layers;
  if (!p.pipeline_model_parallel_layout &&
      p.pipeline_model_parallel_size * p.virtual_pipeline_model_parallel_size > base.model.num_hidden_layers)
    throw InputError(concat("pp x v is ", p.pipeline_model_parallel_size, " x ",
                            p.virtual_pipeline_model_parallel_size, " stages for ",
                            base.model.num_hidden_layers, " layers"));
  p.validate();
  layout.config.training.validate();
  layout.config.validate();
  return layout;
}

}  // namespace

std::vector<Layout> parse_layouts(const train::RunConfig& base, const std::string& text,
                                  std::int64_t most_ranks) {
  std::vector<Layout> all;
  for (const std::string& one : split(text, ';')) {
    try {
      all.push_back(parse(base, one, most_ranks));
    } catch (const InputError& e) {
      throw InputError(concat("--layouts \"", one, "\": ", e.what(), "; ", valid_text(base)));
    }
  }
  return all;
}

Layout one_rank(const train::RunConfig& base) {
  Layout layout{"one rank", 1, base};
  layout.config.parallel = alone(base.parallel);
  return layout;
}

int world_of(const train::RunConfig& config, const std::optional<int>& world, const std::string& command) {
  const pipeline::ParallelSection& p = config.parallel;
  const int least = p.ranks() * int(p.expert_model_parallel_size);
  if (world && *world % least != 0)
    throw InputError(concat(command, ": --world is ", *world, ", allowed is a multiple of ", least,
                            ": parallel.pipeline_model_parallel_size ", p.ranks(),
                            " times expert_model_parallel_size ", p.expert_model_parallel_size));
  return world.value_or(least);
}

}  // namespace strata::tools
