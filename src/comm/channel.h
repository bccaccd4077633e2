// Point-to-point messages of one communicator: all that a back end built on messages has to bring. Everything
// here is called on the rank's progress thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace strata::comm {

// Tags of messages lie in [0, kTags), those of collectives in [kTags, 2 * kTags), of their comparisons
// behind.
constexpr int kTags = 1 << 20;

struct Message {
  enum class Way : std::uint8_t { Send, Receive } way = Way::Send;
  int peer = 0;  // a member of the communicator
  int tag = 0;
  std::byte* data = nullptr;  // only read if sent
  std::int64_t bytes = 0;
};

// A message under way. Its destructor takes the memory back: nobody reads or writes it afterwards.
class Request {
 public:
  virtual ~Request() = default;
  // Whether it is done; throws Error if it failed. Not called again after it was done.
  virtual bool test() = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;
  // Sends and receives of the same two members and tag meet in the order in which each side posts them.
  virtual std::unique_ptr<Request> post(const Message& message) = 0;
};

}  // namespace strata::comm
