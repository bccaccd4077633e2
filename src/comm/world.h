// All ranks of a run. A back end is one implementation: the process alone, threads of one process, MPI.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace strata::comm {

// An operation that has begun and not ended.
struct Waiting {
  std::string operation, communicator, what;  // "all_reduce", "data", what its caller said
  std::string shape;                          // of the caller's tensor: "[512, 64] float32"
  int rank = 0, size = 1;                     // in the communicator
  int tag = 0;                    // of the message; of a collective, its number in the communicator
  std::vector<int> peers = {};    // members whose messages are not done
  std::vector<int> members = {};  // their numbers in the world
  double seconds = 0;             // since it began
  double waited = 0;              // seconds that the rank has stood still for it; 0: it does not
};
// "receive (hidden of micro-batch 3) from rank 0, tag 3, on rank 1 of 2 of pipeline".
std::string describe(const Waiting& waiting);

class Recorder;

// Outlives its communicators, what they have under way, and the devices whose queues hold such operations.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // A communicator of `members` (numbers of the world, this rank among them; their order gives the ranks).
  // All members call this, every rank of the world in the same order of groups.
  virtual std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members) = 0;
  // Ends every rank's waiting: their next or present wait throws Error with this sentence.
  virtual void abort(const std::string& why) = 0;
  // What this rank has under way now. From any thread.
  virtual std::vector<Waiting> waiting() const = 0;
  // Tells it of all operations from here on (recorder.h); null: nobody.
  virtual void record(Recorder*) {}

  // This rank's waits throw Error(why) from here on. From any thread.
  virtual void fail(const std::string&) {}
  // Why they throw; empty: they do not.
  virtual std::string failure() const { return {}; }
  // For watchdogs, from any one thread: this rank waits too long; and who has said so, on any rank.
  virtual void tell_stuck() {}
  virtual std::set<int> stuck() { return {}; }

  // Whether collectives are compared before they count: members whose number, kind, elements, type or purpose
  // differ all throw Error naming both. For finding faults. Set on all ranks before groups are made.
  void check_collectives(bool on) { checked_ = on; }

 protected:
  bool checked_ = false;
};

// One rank: no messages, all operations are copies.
std::unique_ptr<World> self_world();

// Runs `rank_main` on `ranks` threads of this process, each with its own World. When one throws, the others'
// waits throw too, and the first failure is thrown here, its sentence beginning with "rank N: ".
void run_threads(int ranks, const std::function<void(World&)>& rank_main);

// The ranks that mpirun started (one if it did not). One per process, from one thread; ends MPI when it dies.
// abort ends all processes with status 1 and does not return: say why first. Dying by an exception it leaves
// MPI running, so that peers do not wait for it: mpirun ends them when this process exits.
std::unique_ptr<World> mpi_world();

}  // namespace strata::comm
