#include "ops/dispatch.h"

#include <algorithm>
#include <numeric>

#include "ops/rows.h"
#include "tensor/shapes.h"

namespace strata::ops {

// One exchange and its reverse; never both at a time.
struct Transfer {
  comm::Communicator* ranks;
  std::vector<std::int64_t> send, receive;
  std::string what;
  comm::Pending pending;

  void begin(device::Stream& stream, const Tensor& x, const Tensor& y) {
    pending = ranks->all_to_all(stream, x, send, y, receive, what);
  }
  void begin_reverse(device::Stream& stream, const Tensor& dy, const Tensor& dx) {
    pending = ranks->all_to_all(stream, dy, receive, dx, send, "gradients of " + what);
  }
  void end(device::Stream& stream) { std::exchange(pending, {}).wait(stream); }
};

namespace {

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t(0));
}

// The gradient of what is under way is what comes back: of x's size, filled once the transfer has ended.
struct BeginNode final : Node {
  Var x, y;  // slots only
  std::shared_ptr<Transfer> transfer;

  std::string_view name() const override { return "exchange_begin"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    transfer->end(tape.stream());
    tape.pass_grad(y, x);
  }
};

struct EndNode final : Node {
  Var y, z;  // slots only
  std::shared_ptr<Transfer> transfer;

  std::string_view name() const override { return "exchange_end"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    const Tensor dz = tape.grad(z);
    const Tensor dx = tape.empty({sum(transfer->send), dz.dim(1)}, dz.dtype());
    transfer->begin_reverse(tape.stream(), dz, dx);
    tape.adopt_grad(y, dx);
  }
};

InFlight exchange_begin(Tape& tape, const Var& x, Transfer transfer) {
  Shapes s("exchange");
  s(x.value, "rows", "R D").bind("R", sum(transfer.send));
  const Var y = tape.output(tape.empty({sum(transfer.receive), s["D"]}, x.value.dtype()));
  auto node = std::make_unique<BeginNode>();
  node->x.slot = x.slot;
  node->y.slot = y.slot;
  node->transfer = std::make_shared<Transfer>(std::move(transfer));
  const InFlight flight{y, node->transfer};
  flight.transfer->begin(tape.stream(), x.value, y.value);
  tape.record(std::move(node), {y});
  return flight;
}

Var exchange_end(Tape& tape, const InFlight& flight) {
  flight.transfer->end(tape.stream());
  const Var z = tape.output(flight.rows.value);
  auto node = std::make_unique<EndNode>();
  node->y.slot = flight.rows.slot;
  node->z.slot = z.slot;
  node->transfer = flight.transfer;
  tape.record(std::move(node), {z});
  return z;
}

// The offsets of all ranks, [ranks,E+1].
std::vector<std::int64_t> all_offsets(Tape& tape, const RoutingPlan& plan, comm::Communicator& ranks,
                                      const std::string& what, std::int64_t dry_experts) {
  const std::int64_t ends = plan.offsets.numel(), rows = plan.row_slot.numel();
  const Tensor all = tape.empty({ranks.size(), ends}, DType::Int32);
  ranks.all_gather(tape.stream(), plan.offsets, all, what).wait(tape.stream());
  std::vector<std::int64_t> offsets = to_host_int(tape.device(), all, "expert counts");
  if (tape.device().dry())
    for (std::size_t i = 0; i < offsets.size(); ++i)
      offsets[i] = rows * std::min(std::int64_t(i) % ends, dry_experts) / dry_experts;
  return offsets;
}

}  // namespace

DispatchPlan plan_dispatch(Tape& tape, const RoutingPlan& plan, comm::Communicator& ranks,
                           const std::string& what, std::int64_t dry_experts) {
  const std::int64_t ends = plan.offsets.numel(), experts = ends - 1, P = ranks.size(), here = experts / P;
  STRATA_CHECK(experts % P == 0, experts, " experts over ", P, " ranks");
  const std::vector<std::int64_t> offsets =
      all_offsets(tape, plan, ranks, what, dry_experts > 0 ? dry_experts : experts);
  // Rows that rank `from` has for experts [first, first + count).
  const auto rows = [&](std::int64_t from, std::int64_t first, std::int64_t count) {
    return offsets[from * ends + first + count] - offsets[from * ends + first];
  };
  DispatchPlan d{.ranks = &ranks, .send = {}, .receive = {}, .arrived = {}};
  std::vector<std::int64_t> chosen;
  for (std::int64_t r = 0; r < P; ++r) {
    d.send.push_back(rows(ranks.rank(), r * here, here));
    d.receive.push_back(rows(r, ranks.rank() * here, here));
    for (std::int64_t e = 0; e < here; ++e)
      chosen.insert(chosen.end(), rows(r, ranks.rank() * here + e, 1), e);
  }
  const Tensor indices = tape.empty({std::int64_t(chosen.size())}, DType::Int32);
  from_host(tape.device(), indices, chosen);
  d.arrived = plan_routing(tape, indices, here);
  return d;
}

InFlight dispatch_begin(Tape& tape, const Var& rows, const DispatchPlan& plan, const std::string& what) {
  return exchange_begin(tape, rows, {plan.ranks, plan.send, plan.receive, what, {}});
}

Var dispatch_end(Tape& tape, const InFlight& flight, const DispatchPlan& plan) {
  return gather_rows(tape, exchange_end(tape, flight), plan.arrived);
}

InFlight combine_begin(Tape& tape, const Var& rows, const DispatchPlan& plan, const std::string& what) {
  const Var arrived = restore_rows(tape, rows, plan.arrived);
  return exchange_begin(tape, arrived, {plan.ranks, plan.receive, plan.send, what, {}});
}

Var combine_end(Tape& tape, const InFlight& flight) { return exchange_end(tape, flight); }

}  // namespace strata::ops
