#include "kernels/emulate/block.h"

#include <bit>
#include <cstring>
#include <new>

#include "base/error.h"
#include "kernels/emulate/sanitizer.h"

namespace strata::emulate {
namespace {

constexpr int kSharedAlignment = 128;
constexpr std::int64_t kSharedRoom =
    kMaxSharedBytes + (4 << 10);  // past the largest block there is a red zone

bool same_place(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

Block::Block()
    : shared_(static_cast<std::byte*>(::operator new(kSharedRoom, std::align_val_t(kSharedAlignment)))) {}

Block::~Block() {
  unpoison(shared_, kSharedRoom);
  ::operator delete(shared_, std::align_val_t(kSharedAlignment));
}

void Block::begin(const GridShape& shape, dim3 index, const Schedule& schedule) {
  shape_ = &shape;
  index_ = index;
  const int count = int(shape.threads());
  ready_.begin(count, schedule);
  threads_.resize(count);
  dim3 at(0, 0, 0);
  for (int i = 0; i < count; ++i) {
    Thread& t = threads_[i];
    t.block = this;
    t.index = at;
    if (++at.x == shape.block.x) {
      at.x = 0;
      if (++at.y == shape.block.y) at.y = 0, ++at.z;
    }
    t.number = i;
    t.state = State::Fresh;
    t.fiber = nullptr;
    t.barriers = 0;
    t.meeting = nullptr;
    t.copies.pending.clear();
    t.copies.group = 0;
    ready_.add(i);
  }
  at_barrier_ = done_ = 0;
  error_ = nullptr;
  meetings_.resize((count + kWarpSize - 1) / kWarpSize);
  for (auto& warp : meetings_)
    for (auto& meeting : warp) meeting->arrived = meeting->readers = 0;
  shared_type_ = nullptr;
  unpoison(shared_, shape.shared_bytes);
  std::memset(shared_, 0xFF, shape.shared_bytes);  // NaN in every floating-point format
  poison(shared_ + shape.shared_bytes, kSharedRoom - shape.shared_bytes);
}

void Block::run(const GridShape& shape, dim3 index, const Schedule& schedule,
                const std::function<void()>& body) {
  begin(shape, index, schedule);
  body_ = &body;
  for (int next = ready_.first(); next >= 0 && !error_; next = ready_.first()) step(threads_[next]);
  t_thread = nullptr;
  const bool stuck = !error_ && done_ < int(threads_.size());
  if (error_ || stuck) reclaim_fibers();
  if (error_) std::rethrow_exception(error_);
  if (stuck)
    throw Error(concat(name_of(threads_[0]), ": no thread can go on, some wait for others that never come\n",
                       describe(threads_)));
}

void Block::step(Thread& thread) {
  ready_.remove(thread.number);
  t_thread = &thread;
  if (thread.state == State::Ready) return thread.fiber->resume();
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(int(fibers_.size())));
    idle_.push_back(fibers_.back().get());
  }
  thread.fiber = idle_.back();
  idle_.pop_back();
  thread.fiber->start(&Block::carry);
}

// What a fiber runs: its thread to the end, then fresh threads on the same stack while it is their turn.
void Block::carry() {
  Fiber& fiber = *thread().fiber;
  Block& block = *thread().block;
  for (;;) {
    try {
      (*block.body_)();
      block.left();
    } catch (...) {
      block.error_ = std::current_exception();
    }
    const int next = block.ready_.first();
    if (block.error_ || next < 0 || block.threads_[next].state != State::Fresh) break;
    block.ready_.remove(next);
    t_thread = &block.threads_[next];
    t_thread->fiber = &fiber;
  }
  block.idle_.push_back(&fiber);
  fiber.finish();
}

void Block::reclaim_fibers() {
  idle_.clear();
  for (auto& fiber : fibers_) idle_.push_back(fiber.get());
}

void Block::make_ready(Thread& thread) {
  thread.state = State::Ready;
  ready_.add(thread.number);
}

void Block::wait(State state, const char* operation, Site site) {
  Thread& self = thread();
  self.state = state;
  self.operation = operation;
  self.site = site;
}

void Block::left() {
  thread().state = State::Done;
  thread().fiber = nullptr;
  ++done_;
  if (at_barrier_ > 0 && at_barrier_ + done_ == int(threads_.size())) open_block_barrier();
}

void Block::block_barrier(Site site) {
  Thread& self = thread();
  wait(State::AtBlockBarrier, "__syncthreads", site);
  if (++at_barrier_ + done_ == int(threads_.size())) open_block_barrier();
  self.fiber->pause();
}

void Block::open_block_barrier() {
  const Thread* first = nullptr;
  for (const Thread& t : threads_) {
    if (t.state == State::Done) continue;
    if (!first) first = &t;
    if (!same_place(t.site, first->site))
      throw Error(concat(name_of(t), ": threads wait at different __syncthreads\n", describe(threads_)));
  }
  for (const Thread& t : threads_)
    if (t.state == State::Done && t.barriers > 0)
      throw Error(concat(name_of(t), ": left the kernel after ", t.barriers,
                         " __syncthreads while others go on to the next\n", describe(threads_)));
  at_barrier_ = 0;
  ready_.deal();
  for (Thread& t : threads_)
    if (t.state == State::AtBlockBarrier) {
      ++t.barriers;
      make_ready(t);
    }
}

Meeting& Block::join(unsigned mask, Site site) {
  auto& meetings = meetings_[thread().warp()];
  Meeting* idle = nullptr;
  for (auto& meeting : meetings) {
    if (meeting->arrived != 0 && meeting->mask == mask && same_place(meeting->site, site)) return *meeting;
    if (meeting->idle()) idle = meeting.get();
  }
  if (!idle) {
    meetings.push_back(std::make_unique<Meeting>());
    idle = meetings.back().get();
  }
  idle->mask = mask;
  idle->site = site;
  return *idle;
}

Meeting& Block::meet(unsigned mask, const void* value, std::size_t bytes, const char* operation, Site site) {
  Thread& self = thread();
  wait(State::AtWarpBarrier, operation, site);
  const int lanes = int(threads_.size()) - self.warp() * kWarpSize;
  if (!(mask >> self.lane() & 1))
    throw Error(concat(name_of(self), ": calls ", operation, " with a mask that does not name it\n",
                       describe(threads_)));
  if (lanes < kWarpSize && mask >> lanes != 0)
    throw Error(concat(name_of(self), ": the mask at ", operation,
                       " names lanes past the last thread of the block\n", describe(threads_)));
  Meeting& meeting = join(mask, site);
  self.meeting = &meeting;
  if (bytes > 0) std::memcpy(meeting.slots[self.lane()].bytes.data(), value, bytes);
  meeting.arrived |= 1u << self.lane();
  if (meeting.arrived == mask) {
    meeting.readers = std::popcount(mask);
    meeting.arrived = 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1)
      make_ready(threads_[self.warp() * kWarpSize + std::countr_zero(rest)]);
  }
  self.fiber->pause();
  self.meeting = nullptr;
  return meeting;
}

std::byte* Block::shared(const std::type_info& type, std::int64_t bytes) {
  if (bytes > shape_->shared_bytes)
    throw Error(concat(name_of(thread()), ": uses ", bytes, " bytes of shared memory, the launch at ",
                       shape_->site.file, ":", shape_->site.line, " gave ", shape_->shared_bytes));
  if (shared_type_ && *shared_type_ != type)
    throw Error(concat(name_of(thread()), ": shared memory is one struct, it was used as ",
                       shared_type_->name(), " and now as ", type.name()));
  shared_type_ = &type;
  return shared_;
}

bool Block::in_shared(const void* p, std::int64_t bytes) const {
  const auto* at = static_cast<const std::byte*>(p);
  return at >= shared_ && at + bytes <= shared_ + shape_->shared_bytes;
}

}  // namespace strata::emulate
