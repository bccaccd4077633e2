#include "kernels/emulate/machine.h"

#include <utility>

#include "kernels/emulate/dialect.h"

namespace strata::emulate {

Machine::Machine(const Options& options)
    : schedule_(options.schedule),
      memory_(options.memory_bytes, options.guard),
      queue_(options.queued ? device::StreamMode::Queued : device::StreamMode::Inline, options.stream_seed,
             [this](bool open) { memory_.set_open(open); }) {}

int Machine::take_stream() {
  if (idle_streams_.empty()) return queue_.add_stream();
  const int stream = idle_streams_.back();
  idle_streams_.pop_back();
  return stream;
}

void Machine::launch(int stream, const GridShape& shape, std::function<void()> body) {
  check_limits(shape);
  queue_.submit(stream, [this, shape, body = std::move(body)] {
    constexpr std::uint64_t kFarApart = 0x9E3779B97F4A7C15u;
    grid_.run(shape, {schedule_.order, schedule_.seed + kFarApart * ++launches_}, body);
  });
}

void Machine::synchronize(int stream) {
  device::Event reached;
  queue_.record(stream, reached);
  if (late_error_) std::rethrow_exception(std::exchange(late_error_, nullptr));
  queue_.drain_until(reached);
}

void Machine::release(void* p) noexcept {
  try {
    queue_.drain();
    memory_.release(p);
  } catch (...) {
    late_error_ = std::current_exception();
  }
}

void launch(cuda::StreamHandle stream, const GridShape& shape, std::function<void()> body) {
  stream->machine->launch(stream->number, shape, std::move(body));
}

}  // namespace strata::emulate
