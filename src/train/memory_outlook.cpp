#include "train/memory_outlook.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <sstream>

#include "train/layout_plan.h"
#include "train/run_text.h"

namespace strata::train {
namespace {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

struct Host {
  int ranks = 0;
  std::int64_t needed = 0;  // at the peaks of all its ranks, while a checkpoint is saved
  device::HostMemory left;  // as the rank with least of it sees it
};

std::string planned_text(const LayoutPlan& plan) {
  std::string text;
  std::int64_t worst = 0;
  for (const RankPlan& r : plan.ranks) {
    text += (text.empty() ? "" : ", ") + megabytes(r.memory.total.peak);
    worst = std::max(worst, r.worst_peak);
  }
  return concat("memory: planned peak", plan.ranks.size() > 1 ? "s " : " ", text,
                plan.ranks.size() > 1    ? " by pipeline rank"
                : plan.shape.world() > 1 ? " a rank"
                                         : "",
                plan.shape.expert > 1
                    ? concat(", ", megabytes(worst), " should all tokens choose experts of one rank")
                    : "");
}

}  // namespace

MemoryOutlook memory_outlook(const RunConfig& config, const comm::Mesh& mesh,
                             const device::HostMemory& left) {
  const std::vector<std::string> all = comm::gather_texts(
      mesh.all(), concat(mesh.pipeline_rank(), " ", left.bytes, " ", host_name(), " ", left.limit));
  if (mesh.world().rank() != 0) return {};
  LayoutPlan plan;
  try {
    plan = plan_layout(config, mesh.shape().world());
  } catch (const std::exception& e) {  // it takes address space for all stages: no reason to end a run
    return {.planned = concat("memory: no plan, ", e.what()), .too_much = {}};
  }
  std::map<std::string, Host> hosts;
  for (const std::string& text : all) {
    std::istringstream words(text);
    int pipeline_rank = 0;
    device::HostMemory here;
    std::string name;
    std::getline(words >> pipeline_rank >> here.bytes >> name >> std::ws, here.limit);
    Host& host = hosts[name];
    const Memory& memory = plan.ranks[pipeline_rank].memory;
    host.needed += memory.reserved + memory.snapshot;
    if (host.ranks++ == 0 || here.bytes < host.left.bytes) host.left = here;
  }
  MemoryOutlook outlook{.planned = planned_text(plan), .too_much = {}};
  for (const auto& [name, host] : hosts)
    if (!host.left.limit.empty() && host.needed > host.left.bytes)
      outlook.too_much.push_back(concat(
          "memory: ", host.ranks, host.ranks == 1 ? " rank" : " ranks", " on ", name, " will hold about ",
          megabytes(host.needed), ", ", megabytes(host.left.bytes), " are left (", host.left.limit,
          "): the kernel kills a rank that takes more, without a word; a smaller "
          "training.micro_batch_size, recompute, or fewer ranks a host need less"));
  return outlook;
}

}  // namespace strata::train
