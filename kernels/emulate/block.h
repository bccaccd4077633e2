// One thread block. Its threads are fibers, of which one runs at a time; they change places only at barriers.
// A block barrier opens when all threads that have not left wait at it, on one line. A warp barrier opens
// when all lanes of the mask wait on the same line with the same mask. If nobody can run, the block fails and
// says who waits where.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "kernels/emulate/schedule.h"
#include "kernels/emulate/thread.h"

namespace strata::emulate {

class Block {
 public:
  Block();
  ~Block();
  Block(const Block&) = delete;

  // Runs body() once per thread. Throws what a thread threw, or an Error about barriers.
  void run(const GridShape& shape, dim3 index, const Schedule& schedule, const std::function<void()>& body);

  const GridShape& shape() const { return *shape_; }
  const dim3& index() const { return index_; }

  // ---- called by the thread that runs
  void block_barrier(Site site);
  // Comes back when all lanes of `mask` have brought their value; after reading them, leave().
  Meeting& meet(unsigned mask, const void* value, std::size_t bytes, const char* operation, Site site);
  void leave(Meeting& meeting) { --meeting.readers; }
  // The shared memory, once it is known to be used as one type of that size.
  std::byte* shared(const std::type_info& type, std::int64_t bytes);
  bool in_shared(const void* p, std::int64_t bytes) const;

 private:
  static void carry();
  void begin(const GridShape& shape, dim3 index, const Schedule& schedule);
  void step(Thread& thread);
  void make_ready(Thread& thread);
  void wait(State state, const char* operation, Site site);
  void left();
  void open_block_barrier();
  Meeting& join(unsigned mask, Site site);
  void reclaim_fibers();

  const GridShape* shape_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  dim3 index_;
  std::vector<Thread> threads_;
  ReadyList ready_;
  int at_barrier_ = 0, done_ = 0;
  std::vector<std::vector<std::unique_ptr<Meeting>>> meetings_;  // by warp
  std::exception_ptr error_;

  std::byte* shared_;
  const std::type_info* shared_type_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

// "block (1,0,0), thread (33,0,0)"
std::string name_of(const Thread& thread);
// Who waits where, threads that do the same on one line.
std::string describe(const std::vector<Thread>& threads);

// The thread that runs on this OS thread. Kernel code only.
inline constinit thread_local Thread* t_thread = nullptr;
inline Thread& thread() { return *t_thread; }

}  // namespace strata::emulate
