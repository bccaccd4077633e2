// The back end of threads: N ranks in one process, each with its progress thread, and a mailbox at each.
#include <deque>
#include <exception>

#include "comm/mailbox.h"
#include "comm/message_communicator.h"

namespace strata::comm {
namespace {

// What the ranks share.
class Exchange {
 public:
  explicit Exchange(int ranks) : progress_(ranks), boxes_(ranks) {}

  int size() const { return int(boxes_.size()); }
  Progress& progress(int rank) { return progress_[rank]; }
  Mailbox& box(int rank) { return boxes_[rank]; }
  // One number for all members who ask with the same key.
  int context(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return contexts_.try_emplace(key, int(contexts_.size())).first->second;
  }
  void abort(const std::string& why) {
    for (Progress& p : progress_) p.fail(why);
  }
  void tell_stuck(int rank) {
    const std::lock_guard lock(mutex_);
    stuck_.insert(rank);
  }
  std::set<int> stuck() {
    const std::lock_guard lock(mutex_);
    return stuck_;
  }
  // The first failure stays, and ends the others' waits.
  void fail(const std::string& sentence, bool bad_input) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return;
      failed_ = true;
      bad_input_ = bad_input;
      sentence_ = sentence;
    }
    abort(sentence_);
  }
  void rethrow() const {
    if (!failed_) return;
    if (bad_input_) throw InputError(sentence_);
    throw Error(sentence_);
  }

 private:
  std::deque<Progress> progress_;
  std::deque<Mailbox> boxes_;
  std::mutex mutex_;
  std::map<std::string, int> contexts_;
  std::set<int> stuck_;
  bool failed_ = false, bad_input_ = false;
  std::string sentence_;
};

class ThreadChannel final : public Channel {
 public:
  ThreadChannel(Exchange& exchange, int context, int rank, std::vector<int> members)
      : exchange_(exchange), context_(context), world_rank_(rank), members_(std::move(members)) {}

  std::unique_ptr<Request> post(const Message& message) override {
    const int peer = members_[message.peer];
    const bool sending = message.way == Message::Way::Send;
    const int from = sending ? world_rank_ : peer, to = sending ? peer : world_rank_;
    return exchange_.box(to).post({from, context_, message.tag}, message,
                                  [&progress = exchange_.progress(world_rank_)] { progress.wake(); });
  }

 private:
  Exchange& exchange_;
  int context_, world_rank_;
  std::vector<int> members_;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Exchange& exchange, int rank) : exchange_(exchange), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return exchange_.size(); }

  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members) override {
    const int rank = rank_among(name, members, rank_, size());
    if (members.size() == 1)
      return std::make_unique<MessageCommunicator>(name, rank, members, nullptr, nullptr);
    std::string key = name;
    for (const int m : members) key += "," + std::to_string(m);
    key += "," + std::to_string(asked_[key]++);
    auto channel = std::make_shared<ThreadChannel>(exchange_, exchange_.context(key), rank_, members);
    return std::make_unique<MessageCommunicator>(name, rank, members, &exchange_.progress(rank_),
                                                 std::move(channel), checked_);
  }

  void abort(const std::string& why) override { exchange_.abort(why); }
  std::vector<Waiting> waiting() const override { return exchange_.progress(rank_).waiting(); }
  void record(Recorder* recorder) override { exchange_.progress(rank_).record(recorder); }
  void fail(const std::string& why) override { exchange_.progress(rank_).fail(why); }
  std::string failure() const override { return exchange_.progress(rank_).failure(); }
  void tell_stuck() override { exchange_.tell_stuck(rank_); }
  std::set<int> stuck() override { return exchange_.stuck(); }

 private:
  Exchange& exchange_;
  int rank_;
  std::map<std::string, int> asked_;  // how often for each group
};

void run_rank(Exchange& exchange, int rank, const std::function<void(World&)>& rank_main) {
  const std::string name = concat("rank ", rank, ": ");
  try {
    ThreadWorld world(exchange, rank);
    rank_main(world);
  } catch (const InputError& e) {
    exchange.fail(name + e.what(), true);
  } catch (const std::exception& e) {
    exchange.fail(name + sentence_of(e), false);
  } catch (...) {
    exchange.fail(name + "an exception that is none of the library's", false);
  }
}

}  // namespace

void run_threads(int ranks, const std::function<void(World&)>& rank_main) {
  STRATA_CHECK(ranks > 0, "a run on ", ranks, " threads");
  Exchange exchange(ranks);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.push_back(start_thread([&, rank] { run_rank(exchange, rank, rank_main); }));
  } catch (const std::exception& e) {  // those that run must end before `exchange` does
    exchange.fail(concat("rank ", threads.size(), " of ", ranks, ": ", sentence_of(e)), false);
  }
  for (std::thread& t : threads) t.join();
  exchange.rethrow();
}

}  // namespace strata::comm
