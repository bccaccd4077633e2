// Texts about threads for error messages.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "kernels/emulate/block.h"

namespace strata::emulate {
namespace {

std::string triple(const dim3& i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}

bool waits(const Thread& t) { return t.state == State::AtBlockBarrier || t.state == State::AtWarpBarrier; }

bool alike(const Thread& a, const Thread& b) {
  if (a.state != b.state) return false;
  return !waits(a) || (a.meeting == b.meeting && a.site.line == b.site.line && a.operation == b.operation);
}

// "__shfl_xor_sync, mask 0x0000ffff, in kernel at file.cu:12"
std::string doing(const Thread& t) {
  if (t.state == State::Done) return "have left the kernel";
  if (t.state == State::Fresh) return "have not started";
  if (!waits(t)) return "can go on";
  std::ostringstream text;
  text << "wait at " << t.operation;
  if (t.meeting)
    text << ", mask 0x" << std::hex << std::setw(8) << std::setfill('0') << t.meeting->mask << std::dec;
  text << ", in " << t.site.function << " at " << t.site.file << ":" << t.site.line;
  return text.str();
}

// The lanes a warp barrier still waits for, if some of them have left for good.
std::string missing_for_good(const std::vector<Thread>& threads, const Thread& t) {
  std::string lanes;
  for (int lane = 0; t.meeting && lane < kWarpSize; ++lane) {
    const unsigned bit = 1u << lane;
    const std::size_t other = std::size_t(t.warp()) * kWarpSize + lane;
    if ((t.meeting->mask & bit) && other < threads.size() && threads[other].state == State::Done)
      lanes += (lanes.empty() ? " " : ", ") + std::to_string(lane);
  }
  return lanes.empty() ? "" : "; the mask names lanes that have left:" + lanes;
}

std::string shortened(const std::string& ranges) {
  constexpr std::size_t kLength = 100;
  return ranges.size() <= kLength ? ranges : ranges.substr(0, ranges.rfind(',', kLength)) + ",...";
}

}  // namespace

std::string name_of(const Thread& thread) {
  return "block " + triple(thread.block->index()) + ", thread " + triple(thread.index);
}

std::string describe(const std::vector<Thread>& threads) {
  struct Group {
    const Thread* first;
    std::string members;
  };
  std::vector<Group> groups;
  for (std::size_t begin = 0, end; begin < threads.size(); begin = end) {
    for (end = begin + 1; end < threads.size() && alike(threads[begin], threads[end]); ++end) {
    }
    std::string range = std::to_string(begin);
    if (end - begin > 1) range += "-" + std::to_string(end - 1);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](auto& g) { return alike(*g.first, threads[begin]); });
    if (group == groups.end())
      groups.push_back({&threads[begin], range});
    else
      group->members += "," + range;
  }
  std::string text;
  for (const Group& g : groups)
    text += "  threads " + shortened(g.members) + " " + doing(*g.first) +
            missing_for_good(threads, *g.first) + "\n";
  return text;
}

}  // namespace strata::emulate
