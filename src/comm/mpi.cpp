// The back end of MPI. Messages are posted and tested on the progress thread only, since MPI moves nothing on
// its own; groups are made on the rank's thread, hence MPI_THREAD_MULTIPLE.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "comm/message_communicator.h"

namespace strata::comm {
namespace {

constexpr std::int64_t kLargest = std::int64_t(1) << 30;  // bytes of one MPI message: its counts are ints
constexpr std::chrono::seconds kPatience{2};              // for a send that is to be withdrawn

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(concat(call, ": ", std::string(text, length)));
}

// A send that could not be withdrawn: MPI would still read its memory. After that this process calls MPI no
// more, so that nothing does; it can only end.
using Broken = std::atomic<bool>;

class MpiRequest final : public Request {
 public:
  MpiRequest(MPI_Comm group, const Message& m, Broken& broken) : message_(m), broken_(broken) {
    const auto pieces = std::size_t(std::max<std::int64_t>(1, (m.bytes + kLargest - 1) / kLargest));
    requests_.assign(pieces, MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < pieces; ++i) {
      std::byte* data = m.data + i * kLargest;
      if (m.way == Message::Way::Send)
        check(MPI_Isend(data, bytes_of(i), MPI_BYTE, m.peer, m.tag, group, &requests_[i]), "MPI_Isend");
      else
        check(MPI_Irecv(data, bytes_of(i), MPI_BYTE, m.peer, m.tag, group, &requests_[i]), "MPI_Irecv");
    }
  }

  ~MpiRequest() override {
    for (MPI_Request& request : requests_)
      if (request != MPI_REQUEST_NULL && !broken_) withdraw(request);
  }

  bool test() override {
    for (; tested_ < requests_.size(); ++tested_) {
      if (broken_) throw Error("an earlier message could not be withdrawn");
      int done = 0, received = 0;
      MPI_Status status;
      check(MPI_Test(&requests_[tested_], &done, &status), "MPI_Test");
      if (!done) return false;
      if (message_.way == Message::Way::Send) continue;
      check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
      if (received != bytes_of(tested_))
        throw Error(concat(bytes_of(tested_), " bytes expected, ", received, " sent"));
    }
    return true;
  }

 private:
  int bytes_of(std::size_t piece) const {
    return int(std::min(kLargest, message_.bytes - std::int64_t(piece) * kLargest));
  }
  void withdraw(MPI_Request& request) {
    MPI_Cancel(&request);  // of a send: perhaps without effect
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (int done = 0; !done;) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (done) return;
      if (std::chrono::steady_clock::now() > until) {
        broken_ = true;
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  Message message_;
  Broken& broken_;
  std::vector<MPI_Request> requests_;
  std::size_t tested_ = 0;
};

class MpiChannel final : public Channel {
 public:
  // Collective over `members`; their order gives the ranks.
  MpiChannel(const std::vector<int>& members, Broken& broken) : broken_(broken) {
    MPI_Group world, group;
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    check(MPI_Group_incl(world, int(members.size()), members.data(), &group), "MPI_Group_incl");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &group_), "MPI_Comm_create_group");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    check(MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~MpiChannel() override {
    if (!broken_) MPI_Comm_free(&group_);
  }
  std::unique_ptr<Request> post(const Message& message) override {
    if (broken_) throw Error("an earlier message could not be withdrawn");
    return std::make_unique<MpiRequest>(group_, message, broken_);
  }

 private:
  Broken& broken_;
  MPI_Comm group_ = MPI_COMM_NULL;
};

class MpiWorld final : public World {
 public:
  MpiWorld() {
    int provided = 0, started = 0;
    check(MPI_Initialized(&started), "MPI_Initialized");
    STRATA_CHECK(!started, "MPI can be started once in a process");
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    STRATA_CHECK(provided >= MPI_THREAD_MULTIPLE, "this MPI does not allow calls from several threads");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    int *largest = nullptr, found = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found), "MPI_Comm_get_attr");
    STRATA_CHECK(found && *largest >= 3 * kTags, "this MPI has no tags up to ", 3 * kTags);
  }

  ~MpiWorld() override {
    progress_.reset();
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    if (!broken_ && !unwinding) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members) override {
    const int rank = rank_among(name, members, rank_, size_);
    if (members.size() == 1)
      return std::make_unique<MessageCommunicator>(name, rank, members, nullptr, nullptr);
    return std::make_unique<MessageCommunicator>(name, rank, members, progress_.get(),
                                                 std::make_shared<MpiChannel>(members, broken_), checked_);
  }

  void abort(const std::string& why) override {
    progress_->fail(why);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::vector<Waiting> waiting() const override { return progress_->waiting(); }
  void record(Recorder* recorder) override { progress_->record(recorder); }
  void fail(const std::string& why) override { progress_->fail(why); }
  std::string failure() const override { return progress_->failure(); }

  // Empty messages between the watchdogs, beside all groups. Who tells it is about to end: nobody waits for
  // these requests.
  void tell_stuck() override {
    stuck_.insert(rank_);
    for (int peer = 0; peer < size_; ++peer) {
      MPI_Request request;
      if (peer != rank_ && !broken_)
        check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request), "MPI_Isend");
    }
  }
  std::set<int> stuck() override {
    for (int arrived = !broken_; arrived;) {
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &arrived, &status), "MPI_Iprobe");
      if (!arrived) break;
      check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "MPI_Recv");
      stuck_.insert(status.MPI_SOURCE);
    }
    return stuck_;
  }

 private:
  int rank_ = 0, size_ = 1, exceptions_ = std::uncaught_exceptions();
  Broken broken_ = false;
  std::set<int> stuck_;
  std::unique_ptr<Progress> progress_ = std::make_unique<Progress>();
};

}  // namespace

std::unique_ptr<World> mpi_world() { return std::make_unique<MpiWorld>(); }

}  // namespace strata::comm
