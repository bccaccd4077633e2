#include "comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace strata::comm {

// Waiting until the other side comes, then copied by it; `state` is set last by whoever copies.
struct Mailbox::Letter {
  enum State { Waiting, Copying, Done, Mismatch };
  Message message;
  std::function<void()> notify;
  std::atomic<int> state = Waiting;
  std::int64_t other_bytes = 0;
};

class Mailbox::Posted final : public Request {
 public:
  Posted(Mailbox& box, const Address& address, std::shared_ptr<Letter> letter)
      : box_(box), address_(address), letter_(std::move(letter)) {}

  ~Posted() override {
    if (letter_->state.load(std::memory_order_acquire) >= Letter::Done) return;
    {
      const std::lock_guard lock(box_.mutex_);
      if (letter_->state.load(std::memory_order_relaxed) == Letter::Waiting) {
        Queue& queue = box_.queues_.at(address_);
        std::erase(queue, letter_);
        if (queue.empty()) box_.queues_.erase(address_);
        return;
      }
    }
    while (letter_->state.load(std::memory_order_acquire) == Letter::Copying) std::this_thread::yield();
  }

  bool test() override {
    const int state = letter_->state.load(std::memory_order_acquire);
    if (state == Letter::Mismatch) {
      const bool sent = letter_->message.way == Message::Way::Send;
      throw Error(concat(letter_->message.bytes, " bytes ", sent ? "sent" : "expected", ", ",
                         letter_->other_bytes, sent ? " expected" : " sent"));
    }
    return state == Letter::Done;
  }

 private:
  Mailbox& box_;
  Address address_;
  std::shared_ptr<Letter> letter_;
};

std::unique_ptr<Request> Mailbox::post(const Address& address, const Message& message,
                                       std::function<void()> notify) {
  auto letter = std::make_shared<Letter>();
  letter->message = message;
  letter->notify = std::move(notify);
  auto posted = std::make_unique<Posted>(*this, address, letter);
  std::shared_ptr<Letter> other;
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[address];
    if (queue.empty() || queue.front()->message.way == message.way) {
      queue.push_back(letter);
      return posted;
    }
    other = queue.front();
    queue.pop_front();
    if (queue.empty()) queues_.erase(address);
    other->state.store(Letter::Copying, std::memory_order_relaxed);
  }
  const bool fits = other->message.bytes == message.bytes;
  const bool sending = message.way == Message::Way::Send;
  const Message &from = sending ? message : other->message, &to = sending ? other->message : message;
  if (fits && message.bytes > 0) std::memcpy(to.data, from.data, message.bytes);
  letter->other_bytes = other->message.bytes;
  other->other_bytes = message.bytes;
  const int state = fits ? Letter::Done : Letter::Mismatch;
  letter->state.store(state, std::memory_order_relaxed);
  other->state.store(state, std::memory_order_release);
  other->notify();
  return posted;
}

}  // namespace strata::comm
