// Messages between threads of one process: whoever comes second copies, from the sender's memory straight to
// the receiver's and under no lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "comm/channel.h"

namespace strata::comm {

// What lies at one receiver.
class Mailbox {
 public:
  struct Address {  // sender, context, tag
    int from, context, tag;
    auto operator<=>(const Address&) const = default;
  };
  // `notify`: called when somebody else has completed or failed this message.
  std::unique_ptr<Request> post(const Address& address, const Message& message, std::function<void()> notify);

 private:
  struct Letter;
  class Posted;
  using Queue = std::deque<std::shared_ptr<Letter>>;

  std::mutex mutex_;
  std::map<Address, Queue> queues_;  // of one direction each; none is empty
};

}  // namespace strata::comm
