// The back end of one process alone.
#include "comm/message_communicator.h"

namespace strata::comm {
namespace {

class SelfWorld final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members) override {
    return std::make_unique<MessageCommunicator>(name, rank_among(name, members, 0, 1), members, nullptr,
                                                 nullptr);
  }
  void abort(const std::string&) override {}  // nobody waits
  std::vector<Waiting> waiting() const override { return {}; }
};

}  // namespace

std::unique_ptr<World> self_world() { return std::make_unique<SelfWorld>(); }

}  // namespace strata::comm
