#include "tools/plan_layout.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::tools {
namespace {

using device::Purpose;
using train::LayoutPlan;
using train::RankPlan;

// "embedding, 0-3, 8-11, head".
std::string layers_text(const RankPlan& rank) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const model::StageRange& s : rank.stages) {
    if (s.embedding) add("embedding");
    if (s.last - s.first == 1) add(std::to_string(s.first));
    if (s.last - s.first > 1) add(concat(s.first, "-", s.last - 1));
    if (s.head) add("head");
  }
  return text;
}

std::int64_t peak(const RankPlan& rank, Purpose purpose) { return rank.memory.use[int(purpose)].peak; }

std::string text_of(const comm::Traffic& t) {
  return t.messages > 0 ? concat(size_text(t.bytes), " in ", t.messages) : "-";
}

nlohmann::ordered_json json_of(const comm::Traffic& t) {
  return {{"bytes", t.bytes}, {"messages", t.messages}};
}

// Of every kind the most that one of the ranks sends.
train::Traffic most_sent(const LayoutPlan& plan) {
  train::Traffic most;
  for (const RankPlan& r : plan.ranks)
    for (comm::Traffic train::Traffic::*kind :
         {&train::Traffic::pipeline, &train::Traffic::experts, &train::Traffic::reductions})
      if ((r.sent.*kind).bytes >= (most.*kind).bytes) most.*kind = r.sent.*kind;
  return most;
}

std::int64_t worst_peak(const LayoutPlan& plan) {
  std::int64_t most = 0;
  for (const RankPlan& r : plan.ranks) most = std::max(most, r.worst_peak);
  return most;
}

void print_memory(const LayoutPlan& plan) {
  std::printf("%-13s %12s %9s %12s %12s %12s %12s %15s %12s  %s\n", "pipeline rank", "parameters",
              "in flight", "peak memory", "parameters", "gradients", "activations", "optimizer state", "data",
              "layers");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& p = plan.ranks[r];
    const auto text = [&](Purpose purpose) { return size_text(peak(p, purpose)); };
    std::printf("%-13zu %12lld %9d %12s %12s %12s %12s %15s %12s  %s\n", r, (long long)p.parameters,
                p.in_flight, size_text(p.memory.total.peak).c_str(), text(Purpose::Parameters).c_str(),
                text(Purpose::Gradients).c_str(), text(Purpose::Activations).c_str(),
                text(Purpose::OptimizerState).c_str(), text(Purpose::Data).c_str(), layers_text(p).c_str());
  }
}

void print_messages(const LayoutPlan& plan) {
  std::printf("\n%-13s %20s %20s %20s  (bytes in messages)\n", "sent a step", "pipeline", "all-to-all",
              "reductions");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const train::Traffic& t = plan.ranks[r].sent;
    std::printf("rank %-8zu %20s %20s %20s\n", r, text_of(t.pipeline).c_str(), text_of(t.experts).c_str(),
                text_of(t.reductions).c_str());
  }
  if (plan.experts_bytes > 0)
    std::printf("all-to-all: %s of a rank for each MoE layer and micro-batch, with tokens spread evenly\n",
                size_text(plan.experts_bytes).c_str());
}

void print_worst(const LayoutPlan& plan) {
  if (plan.shape.expert == 1) return;
  std::printf("\n%-13s %20s %20s  all tokens choose experts of this rank; sent, and as much received\n",
              "at worst", "peak memory", "all-to-all");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    std::printf("rank %-8zu %20s %20s\n", r, size_text(plan.ranks[r].worst_peak).c_str(),
                text_of(plan.ranks[r].worst_experts).c_str());
}

void print_cuts(const LayoutPlan& plan) {
  if (plan.cuts.empty()) return;
  std::printf("\n%-13s %12s %12s %12s  of a micro-batch\n", "cut", "from rank", "forward", "backward");
  for (const train::CutPlan& c : plan.cuts)
    std::printf("stage %-7d %12s %12s %12s\n", c.stage, concat(c.from, " to ", c.to).c_str(),
                size_text(c.forward).c_str(), size_text(c.backward).c_str());
}

nlohmann::ordered_json rank_json(const RankPlan& p) {
  nlohmann::ordered_json j{{"parameters", p.parameters},
                           {"in_flight", p.in_flight},
                           {"late_weights", p.late_weights},
                           {"sent_per_step", traffic_json(p.sent)}};
  for (const model::StageRange& s : p.stages)
    j["stages"].push_back(
        {{"first", s.first}, {"last", s.last}, {"embedding", s.embedding}, {"head", s.head}});
  j["peak_memory_bytes"]["total"] = p.memory.total.peak;
  for (int i = 0; i < device::kPurposes; ++i)
    j["peak_memory_bytes"][std::string(device::name_of(Purpose(i)))] = p.memory.use[i].peak;
  j["peak_memory_bytes"]["reserved"] = p.memory.reserved;
  j["all_tokens_to_this_rank"] = {{"peak_memory_bytes", p.worst_peak},
                                  {"all_to_all", json_of(p.worst_experts)}};
  return j;
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  const bool large = bytes >= 10'000'000'000;
  char text[40];
  std::snprintf(text, sizeof text, "%.2f%s", double(bytes) / (large ? 1e9 : 1e6), large ? " GB" : " MB");
  return text;
}

void print_layout(const LayoutPlan& plan) {
  const comm::MeshShape& s = plan.shape;
  std::printf(
      "\n%d ranks: pipeline %d x data %d, experts over %d; schedule %s, %d micro-batches on each, bubble "
      "%.1f%%\n\n",
      s.world(), s.pipeline, s.data, s.expert, std::string(name_of(plan.schedule)).c_str(),
      plan.micro_batches, 100 * plan.bubble);
  print_memory(plan);
  print_messages(plan);
  print_worst(plan);
  print_cuts(plan);
}

void print_layouts(const std::vector<std::string>& names, const std::vector<LayoutPlan>& plans) {
  std::size_t width = 6;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::printf("%-*s %5s  %-11s %6s %11s %11s %17s %17s %17s\n", int(width), "layout", "ranks", "schedule",
              "bubble", "peak memory", "at worst", "pipeline", "all-to-all", "reductions");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const LayoutPlan& p = plans[i];
    const train::Traffic sent = most_sent(p);
    std::printf("%-*s %5d  %-11s %5.1f%% %11s %11s %17s %17s %17s\n", int(width), names[i].c_str(),
                p.shape.world(), p.shape.pipeline > 1 ? std::string(name_of(p.schedule)).c_str() : "",
                100 * p.bubble, size_text(fullest(p).memory.total.peak).c_str(),
                p.shape.expert > 1 ? size_text(worst_peak(p)).c_str() : "", text_of(sent.pipeline).c_str(),
                text_of(sent.experts).c_str(), text_of(sent.reductions).c_str());
  }
  std::printf(
      "\nOf the rank that has most. At worst: all tokens choose experts of one rank. Sent in a step by a "
      "rank:\nbytes in messages, with tokens spread evenly over experts.\n");
}

nlohmann::ordered_json traffic_json(const train::Traffic& t) {
  return {{"pipeline", json_of(t.pipeline)},
          {"all_to_all", json_of(t.experts)},
          {"reductions", json_of(t.reductions)}};
}

nlohmann::ordered_json layout_json(const LayoutPlan& plan) {
  const comm::MeshShape& s = plan.shape;
  nlohmann::ordered_json j{{"ranks", s.world()},
                           {"pipeline", s.pipeline},
                           {"data", s.data},
                           {"expert", s.expert},
                           {"schedule", name_of(plan.schedule)},
                           {"micro_batches", plan.micro_batches},
                           {"bubble", plan.bubble},
                           {"all_to_all_bytes_per_layer_and_micro_batch", plan.experts_bytes},
                           {"pipeline_ranks", nlohmann::ordered_json::array()},
                           {"cuts", nlohmann::ordered_json::array()}};
  for (const RankPlan& r : plan.ranks) j["pipeline_ranks"].push_back(rank_json(r));
  for (const train::CutPlan& c : plan.cuts)
    j["cuts"].push_back({{"stage", c.stage},
                         {"from", c.from},
                         {"to", c.to},
                         {"forward_bytes", c.forward},
                         {"backward_bytes", c.backward}});
  return j;
}

}  // namespace strata::tools
