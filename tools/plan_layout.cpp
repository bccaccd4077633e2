#include "tools/plan_layout.h"

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
  std::printf("\n%-13s %12s %12s %12s\n", "sent a step", "pipeline", "all-to-all", "reductions");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const train::Traffic& t = plan.ranks[r].sent;
    std::printf("rank %-8zu %12s %12s %12s\n", r, size_text(t.pipeline).c_str(), size_text(t.experts).c_str(),
                size_text(t.reductions).c_str());
  }
  if (plan.experts_bytes > 0)
    std::printf("all-to-all: %s of a rank for each MoE layer and micro-batch, with tokens spread evenly\n",
                size_text(plan.experts_bytes).c_str());
  if (plan.cuts.empty()) return;
  std::printf("\n%-13s %12s %12s %12s  of a micro-batch\n", "cut", "from rank", "forward", "backward");
  for (const train::CutPlan& c : plan.cuts)
    std::printf("stage %-7d %12s %12s %12s\n", c.stage, concat(c.from, " to ", c.to).c_str(),
                size_text(c.forward).c_str(), size_text(c.backward).c_str());
}

nlohmann::ordered_json rank_json(const RankPlan& p) {
  nlohmann::ordered_json j{
      {"parameters", p.parameters},
      {"in_flight", p.in_flight},
      {"late_weights", p.late_weights},
      {"bytes_sent_per_step",
       {{"pipeline", p.sent.pipeline}, {"all_to_all", p.sent.experts}, {"reductions", p.sent.reductions}}}};
  for (const model::StageRange& s : p.stages)
    j["stages"].push_back(
        {{"first", s.first}, {"last", s.last}, {"embedding", s.embedding}, {"head", s.head}});
  j["peak_memory_bytes"]["total"] = p.memory.total.peak;
  for (int i = 0; i < device::kPurposes; ++i)
    j["peak_memory_bytes"][std::string(device::name_of(Purpose(i)))] = p.memory.use[i].peak;
  j["peak_memory_bytes"]["reserved"] = p.memory.reserved;
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
