// Communicator of every back end that is built on messages: operations become plans, plans run as transfers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/progress.h"

namespace strata::comm {

class MessageCommunicator final : public Communicator {
 public:
  // A group of one needs neither progress nor channel. checked: collectives are compared (checked.h).
  MessageCommunicator(std::string name, int rank, std::vector<int> members, Progress* progress,
                      std::shared_ptr<Channel> channel, bool checked = false)
      : Communicator(std::move(name), rank, std::move(members)),
        progress_(progress),
        channel_(std::move(channel)),
        checked_(checked && size() > 1) {}

 protected:
  std::shared_ptr<Operation> make_send(ConstView x, int to, int tag, std::string what) override;
  std::shared_ptr<Operation> make_receive(View y, int from, int tag, std::string what) override;
  std::shared_ptr<Operation> make_all_reduce(View x, std::string what) override;
  std::shared_ptr<Operation> make_reduce_scatter(ConstView x, View y, std::string what) override;
  std::shared_ptr<Operation> make_all_gather(ConstView x, View y, std::string what) override;
  std::shared_ptr<Operation> make_all_to_all(ConstView x, std::vector<std::int64_t> send, View y,
                                             std::vector<std::int64_t> receive, std::string what) override;

 private:
  std::shared_ptr<Operation> transfer(const char* operation, ConstView x, int tag, std::string what,
                                      Plan plan);
  // The next collective, of `count` elements (all_to_all: of a row). Members count alike, so their messages
  // meet.
  std::shared_ptr<Operation> collective(const char* operation, ConstView x, std::int64_t count,
                                        std::string what, const std::function<Plan(Place)>& plan);

  Progress* progress_;
  std::shared_ptr<Channel> channel_;
  bool checked_;
  int collectives_ = 0;
};

// The number of world rank `rank` among `members` of a group; an Error if they are not members of a world of
// `size`, each once, or `rank` is not there.
int rank_among(const std::string& name, const std::vector<int>& members, int rank, int size);

}  // namespace strata::comm
