#include "kernels/emulate/grid.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace strata::emulate {
namespace {

// The block that runs at each place of the order; empty for places that are block numbers.
std::vector<std::int64_t> deal_blocks(std::int64_t blocks, const Schedule& schedule) {
  if (schedule.order != Order::Shuffled) return {};
  std::vector<std::int64_t> order(blocks);
  std::iota(order.begin(), order.end(), std::int64_t(0));
  Random random(schedule.seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// The error of the lowest place in the order, from any thread.
class FirstError {
 public:
  void note(std::int64_t place, std::exception_ptr error) {
#pragma omp critical(strata_emulate_first_error)
    if (place < place_.load()) {
      place_ = place;
      error_ = error;
    }
  }
  bool before(std::int64_t place) const { return place_.load() < place; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<std::int64_t> place_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr error_;
};

}  // namespace

void check_limits(const GridShape& s) {
  const auto fail = [&](const auto&... parts) {
    throw Error(concat("launch in ", s.site.function, " at ", s.site.file, ":", s.site.line, ": ", parts...));
  };
  const dim3 &g = s.grid, &b = s.block;
  if (s.threads() < 1 || s.threads() > kMaxThreads || b.z > 64)
    fail("block of ", b.x, " x ", b.y, " x ", b.z, " threads, allowed are 1 to ", kMaxThreads,
         " and 64 in z");
  if (g.x < 1 || g.x > 0x7fffffffu || g.y < 1 || g.y > 65535 || g.z < 1 || g.z > 65535)
    fail("grid of ", g.x, " x ", g.y, " x ", g.z, " blocks, allowed are 1 to 2147483647 x 65535 x 65535");
  if (s.shared_bytes < 0 || s.shared_bytes > kMaxSharedBytes)
    fail(s.shared_bytes, " bytes of shared memory, allowed are up to ", kMaxSharedBytes);
}

void Grid::run(const GridShape& shape, const Schedule& schedule, const std::function<void()>& body) {
  const std::int64_t blocks = shape.blocks();
  const auto order = deal_blocks(blocks, schedule);
  const int workers = int(std::min<std::int64_t>(blocks, omp_get_max_threads()));
  while (int(workers_.size()) < workers) workers_.push_back(std::make_unique<Block>());
  FirstError error;
#pragma omp parallel for schedule(dynamic) num_threads(workers)
  for (std::int64_t place = 0; place < blocks; ++place) {
    if (error.before(place)) continue;
    const std::int64_t number = !order.empty()                        ? order[place]
                                : schedule.order == Order::Descending ? blocks - 1 - place
                                                                      : place;
    try {
      workers_[omp_get_thread_num()]->run(shape, index_in(shape.grid, number),
                                          {schedule.order, schedule.seed + std::uint64_t(number)}, body);
    } catch (...) {
      error.note(place, std::current_exception());
    }
  }
  error.rethrow();
}

}  // namespace strata::emulate
