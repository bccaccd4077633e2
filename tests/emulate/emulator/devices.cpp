#include "emulate/devices.h"

#include "kernels/emulate/machine.h"

namespace strata::testing {

void on_every_device(const std::function<void(cuda::Device&)>& body) {
  using emulate::Order;
  for (const emulate::Schedule schedule : {emulate::Schedule{Order::Ascending, 0},
                                           {Order::Descending, 0},
                                           {Order::Shuffled, 1},
                                           {Order::Shuffled, 2},
                                           {Order::Shuffled, 3}}) {
    SCOPED_TRACE(::testing::Message() << "order " << int(schedule.order) << ", seed " << schedule.seed);
    const bool strict = schedule.order != Order::Ascending;
    cuda::Device device = emulate::open(
        {.schedule = schedule, .queued = strict, .stream_seed = schedule.seed, .guard = strict});
    body(device);
  }
}

}  // namespace strata::testing
