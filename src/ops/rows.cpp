#include "ops/rows.h"

#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct GatherNode final : Node {
  Var x, rows;  // slots only
  Tensor slot_row;

  std::string_view name() const override { return "gather_rows"; }
  std::vector<Tensor> saved() const override { return {slot_row}; }
  void backward(Tape& tape) override {
    tape.stream().run(
        kernels::GatherRowsBackward{.drows = tape.grad(rows), .slot_row = slot_row, .dx = tape.grad_into(x)});
  }
};

struct CombineNode final : Node {
  Var rows, gates;
  Var y;  // slot only
  Tensor slot_row;

  std::string_view name() const override { return "combine_rows"; }
  std::vector<Tensor> saved() const override { return {rows.value, gates.value, slot_row}; }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::CombineRowsBackward{.dy = tape.grad(y),
                                                   .rows = rows.value,
                                                   .gates = gates.value,
                                                   .slot_row = slot_row,
                                                   .drows = tape.grad_into(rows),
                                                   .dgates = tape.grad_into(gates)});
  }
};

struct RestoreNode final : Node {
  Var rows, y;  // slots only
  Tensor row_slot;

  std::string_view name() const override { return "restore_rows"; }
  std::vector<Tensor> saved() const override { return {row_slot}; }
  void backward(Tape& tape) override {
    tape.stream().run(
        kernels::GatherRowsBackward{.drows = tape.grad(y), .slot_row = row_slot, .dx = tape.grad_into(rows)});
  }
};

}  // namespace

Var gather_rows(Tape& tape, const Var& x, const RoutingPlan& plan) {
  Shapes s("gather_rows");
  s(x.value, "x", "T D")(plan.row_slot, "row_slot", "R");
  const Var rows = tape.output(tape.empty({s["R"], s["D"]}, x.value.dtype()));
  auto node = std::make_unique<GatherNode>();
  node->x.slot = x.slot;
  node->rows.slot = rows.slot;
  node->slot_row = plan.slot_row;
  tape.stream().run(kernels::GatherRows{.x = x.value, .row_slot = plan.row_slot, .rows = rows.value});
  tape.record(std::move(node), {rows});
  return rows;
}

Var combine_rows(Tape& tape, const Var& rows, const Var& gates, const RoutingPlan& plan) {
  Shapes s("combine_rows");
  s(rows.value, "rows", "R D")(gates.value, "gates", "T K")(plan.slot_row, "slot_row", "R")
      .bind("R", s["T"] * s["K"]);
  const Var y = tape.output(tape.empty({s["T"], s["D"]}, rows.value.dtype()));
  auto node = std::make_unique<CombineNode>();
  node->rows = rows;
  node->gates = gates;
  node->y.slot = y.slot;
  node->slot_row = plan.slot_row;
  tape.stream().run(kernels::CombineRows{
      .rows = rows.value, .gates = gates.value, .slot_row = plan.slot_row, .y = y.value});
  tape.record(std::move(node), {y});
  return y;
}

Var restore_rows(Tape& tape, const Var& rows, const RoutingPlan& plan) {
  Shapes s("restore_rows");
  s(rows.value, "rows", "R D")(plan.slot_row, "slot_row", "R");
  const Var y = tape.output(tape.empty({s["R"], s["D"]}, rows.value.dtype()));
  auto node = std::make_unique<RestoreNode>();
  node->rows.slot = rows.slot;
  node->y.slot = y.slot;
  node->row_slot = plan.row_slot;
  tape.stream().run(kernels::GatherRows{.x = rows.value, .row_slot = plan.slot_row, .rows = y.value});
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
