#include "residual/depth_residual.h"

#include "ops/add.h"
#include "ops/rms_norm.h"
#include "ops/widen_grad.h"

namespace strata::residual {

State DepthResidual::open(Tape& tape, const Var& embedding) {
  return blocks_.open(ops::widen_grad(tape, embedding));
}

// Sub-layer 1 reads the embedding itself. The retrieved input, where it has memory of its own, goes to write.
Reading DepthResidual::read(Tape& tape, State& state, Slot slot, const Norm& norm) {
  Var h = state.items.front().var;
  std::vector<Var> carry;
  if (slot.number > 1) {
    const ops::DepthMerged merged = blocks_.retrieve(tape, state, slot, fusion(slot));
    h = merged.y;
    if (merged.owned) carry.push_back(h);
  }
  const Var x = ops::rms_norm(tape, h, norm.weight, norm.eps);
  return {slot, x, std::move(carry), {x}};
}

// Releases only here: x, when it was released, is computed again from h, so h must come back first, and h
// from phase 1.
void DepthResidual::write(Tape& tape, State& state, const Reading& reading, const Var& update) {
  blocks_.release(tape, state, reading.slot, reading.carry.empty() ? nullptr : &reading.carry[0]);
  const Var* sum = blocks_.partial(state, reading.slot);
  const DType full = acc_of(update.value.dtype());
  blocks_.settle(state, reading.slot,
                 sum ? ops::add(tape, *sum, update, full) : ops::widen_grad(tape, update));
}

Var DepthResidual::close(Tape& tape, State& state) {
  const Slot head = blocks_.head();
  const ops::DepthMerged merged = blocks_.retrieve(tape, state, head, fusion(head));
  if (merged.owned) blocks_.release(tape, state, head, nullptr);
  return merged.y;
}

}  // namespace strata::residual
