// Ranks that exchange device memory. Every operation returns at once and goes on beside the compute stream:
// it begins when the stream gets there, and ends for the stream where Pending::wait is called. Sums are taken
// in the order of ranks, so that the same layout gives the same bits whatever carries the messages. Messages
// touch device memory outside jobs: a communicating device has DeviceOptions::guard off.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace strata::comm {

// Bytes and messages that leave this rank.
struct Traffic {
  std::int64_t bytes = 0, messages = 0;
};

// One operation under way, in the back end's words. Destroying it before it is done takes its memory back
// first.
class Operation {
 public:
  virtual ~Operation() = default;
  // Called on the rank's own thread when its stream gets there.
  virtual void start() = 0;
  // Blocks until done; throws Error with the reason of World::abort, or naming operation and peer.
  virtual void finish() = 0;
  // Takes the memory back: nothing touches it from here on, even if the operation was not started yet.
  virtual void cancel() = 0;
  virtual Traffic traffic() const = 0;
};

// Keeps the tensors of an operation alive until it is waited for. Dropped without that, the operation is
// cancelled.
class Pending {
 public:
  Pending() = default;
  Pending(std::shared_ptr<Operation> operation, std::vector<Tensor> tensors)
      : operation_(std::move(operation)), tensors_(std::move(tensors)) {}
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();
  explicit operator bool() const { return operation_ != nullptr; }
  // Once, by who made it.
  void start(device::Stream& stream);
  // What is submitted to `stream` from here on sees the result; what was sent may be overwritten. Nothing
  // happens if there is nothing to wait for.
  void wait(device::Stream& stream);

 private:
  void cancel() noexcept;

  std::shared_ptr<Operation> operation_;
  std::vector<Tensor> tensors_;
  device::Event started_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return int(members_.size()); }
  // The world's number of a member.
  int world_rank(int member) const { return members_.at(member); }
  // Of all operations so far.
  const Traffic& traffic() const { return traffic_; }

  // 0 <= tag < 2^20. Messages between two ranks meet by tag; of equal tags, in the order they were posted.
  // `what` names the operation for whoever waits for it too long: "hidden of micro-batch 3 to stage 2".
  Pending send(device::Stream& stream, const Tensor& x, int to, int tag, std::string what = {});
  Pending receive(device::Stream& stream, const Tensor& y, int from, int tag, std::string what = {});

  // Collectives: every member calls them in the same order. x and y are contiguous, of one type.
  // x becomes the sum over members.
  Pending all_reduce(device::Stream& stream, const Tensor& x, std::string what = {});
  // x: size() equal parts; y: the sum of everyone's part rank(). y may be that part of x.
  Pending reduce_scatter(device::Stream& stream, const Tensor& x, const Tensor& y, std::string what = {});
  // y: everyone's x in order of rank. x may be part rank() of y.
  Pending all_gather(device::Stream& stream, const Tensor& x, const Tensor& y, std::string what = {});
  // Rows (first dimension): send[i] rows of x go to member i, receive[i] rows of y come from it, both in
  // order.
  Pending all_to_all(device::Stream& stream, const Tensor& x, std::vector<std::int64_t> send, const Tensor& y,
                     std::vector<std::int64_t> receive, std::string what = {});
  // Every member has come this far.
  void barrier(std::string what = {});

 protected:
  Communicator(std::string name, int rank, std::vector<int> members)
      : name_(std::move(name)), rank_(rank), members_(std::move(members)) {}

  // What a back end does: the same operations over plain memory. Views stay valid until the operation is
  // finished or destroyed.
  virtual std::shared_ptr<Operation> make_send(ConstView x, int to, int tag, std::string what) = 0;
  virtual std::shared_ptr<Operation> make_receive(View y, int from, int tag, std::string what) = 0;
  virtual std::shared_ptr<Operation> make_all_reduce(View x, std::string what) = 0;
  virtual std::shared_ptr<Operation> make_reduce_scatter(ConstView x, View y, std::string what) = 0;
  virtual std::shared_ptr<Operation> make_all_gather(ConstView x, View y, std::string what) = 0;
  virtual std::shared_ptr<Operation> make_all_to_all(ConstView x, std::vector<std::int64_t> send, View y,
                                                     std::vector<std::int64_t> receive, std::string what) = 0;
  // The same members over host memory: this communicator itself, if its views may lie there.
  virtual Communicator& host() { return *this; }

 private:
  friend std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine);
  void run(std::shared_ptr<Operation> operation);
  void check_peer(const char* operation, const Tensor& tensor, int peer, int tag) const;
  Pending begin(device::Stream& stream, std::shared_ptr<Operation> operation, std::vector<Tensor> tensors);

  std::string name_;
  int rank_;
  std::vector<int> members_;
  Traffic traffic_;
};

// Host bytes between the members of a communicator, for what is said once: names, configurations, traces.
// Blocks; one result per member.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine);

}  // namespace strata::comm
