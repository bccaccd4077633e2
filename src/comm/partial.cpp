#include "comm/partial.h"

#include <algorithm>

#include "comm/message_communicator.h"

namespace strata::comm {
namespace {

// An operation of a dry device: its stream never gets to it.
class Counted final : public Operation {
 public:
  explicit Counted(const Plan& plan) : traffic_(plan.traffic) {}
  void start() override { never(); }
  void finish() override { never(); }
  void cancel() override {}
  Traffic traffic() const override { return traffic_; }

 private:
  static void never() { throw Error("a message of a partial world, which only counts, is sent"); }
  Traffic traffic_;
};

class CountingCommunicator final : public Communicator {
 public:
  // texts: the same members where they all run; may be null.
  CountingCommunicator(std::string name, int rank, std::vector<int> members,
                       std::unique_ptr<Communicator> texts)
      : Communicator(std::move(name), rank, std::move(members)), texts_(std::move(texts)) {}

 protected:
  std::shared_ptr<Operation> make_send(ConstView x, int to, int tag, std::string) override {
    return count(plan_send(x, to, tag));
  }
  std::shared_ptr<Operation> make_receive(View y, int from, int tag, std::string) override {
    return count(plan_receive(y, from, tag));
  }
  std::shared_ptr<Operation> make_all_reduce(View x, std::string) override {
    return count(plan_all_reduce(x, place()));
  }
  std::shared_ptr<Operation> make_reduce_scatter(ConstView x, View y, std::string) override {
    return count(plan_reduce_scatter(x, y, place()));
  }
  std::shared_ptr<Operation> make_all_gather(ConstView x, View y, std::string) override {
    return count(plan_all_gather(x, y, place()));
  }
  std::shared_ptr<Operation> make_all_to_all(ConstView x, std::vector<std::int64_t> send, View y,
                                             std::vector<std::int64_t> receive, std::string) override {
    return count(plan_all_to_all(x, std::move(send), y, std::move(receive), place()));
  }
  Communicator& host() override {
    if (!texts_) throw Error(concat("not all ranks of group ", name(), " run"));
    return *texts_;
  }

 private:
  static std::shared_ptr<Operation> count(const Plan& plan) { return std::make_shared<Counted>(plan); }
  Place place() const { return {rank(), size(), kTags}; }

  std::unique_ptr<Communicator> texts_;
};

class PartialWorld final : public World {
 public:
  PartialWorld(World& here, std::vector<int> present, int size)
      : here_(here), present_(std::move(present)), size_(size) {
    STRATA_CHECK(int(present_.size()) == here.size(), present_.size(), " ranks of a world of ", size,
                 " stand for ", here.size());
  }
  int rank() const override { return present_[here_.rank()]; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members) override {
    const int number = rank_among(name, members, rank(), size());
    std::vector<int> running;
    for (const int m : members)
      if (const auto it = std::find(present_.begin(), present_.end(), m); it != present_.end())
        running.push_back(int(it - present_.begin()));
    std::unique_ptr<Communicator> texts;
    if (running.size() == members.size()) texts = here_.group(name, running);
    return std::make_unique<CountingCommunicator>(name, number, members, std::move(texts));
  }
  void abort(const std::string& why) override { here_.abort(why); }
  std::vector<Waiting> waiting() const override { return here_.waiting(); }

 private:
  World& here_;
  std::vector<int> present_;
  int size_;
};

}  // namespace

std::unique_ptr<World> partial_world(World& here, std::vector<int> present, int size) {
  return std::make_unique<PartialWorld>(here, std::move(present), size);
}

}  // namespace strata::comm
