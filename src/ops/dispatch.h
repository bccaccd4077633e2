// Rows to the ranks that hold their experts, and back: exchanges in two halves, between which other work
// runs. Backward of an end begins the reverse exchange and backward of a begin ends it, so that what lies
// between them covers both passes. Every rank of the group takes part in all of them, also without rows.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ops/router.h"

namespace strata::ops {

// Where the rows that plan_routing sorted go, when experts are spread over ranks in equal runs.
struct DispatchPlan {
  comm::Communicator* ranks = nullptr;
  std::vector<std::int64_t> send, receive;  // rows to, and from, each rank
  RoutingPlan arrived;  // of the rows received, in order of rank: each has chosen one of the experts here
};
// Every rank learns the others' counts: one read-back, named "expert counts"; `what` names the exchange.
// dry_experts: on a dry device all rows are spread evenly over so many experts, the first; 0: over all.
DispatchPlan plan_dispatch(Tape& tape, const RoutingPlan& plan, comm::Communicator& ranks,
                           const std::string& what = "expert counts", std::int64_t dry_experts = 0);

// Rows under way; their values are there after the end.
struct Transfer;
struct InFlight {
  Var rows;
  std::shared_ptr<Transfer> transfer;
};

// rows [T*K,D] sorted by expert -> [R,D], those that chose an expert here, sorted by it; within an expert in
// order of rank, then as sent. `what` names the exchange for whoever waits too long.
InFlight dispatch_begin(Tape& tape, const Var& rows, const DispatchPlan& plan, const std::string& what);
Var dispatch_end(Tape& tape, const InFlight& flight, const DispatchPlan& plan);
// The way back: rows [R,D] -> [T*K,D], each where it came from.
InFlight combine_begin(Tape& tape, const Var& rows, const DispatchPlan& plan, const std::string& what);
Var combine_end(Tape& tape, const InFlight& flight);

}  // namespace strata::ops
