// Rotary embedding: both pairings, part of a head or all of it, several sequences, positions beyond a table
// step.
#include "ops/rope.h"

#include <gtest/gtest.h>

#include "reference/rope.h"
#include "support/op_case.h"

namespace strata::test {
namespace {

struct RopeCase : OpCase {
  std::int64_t batch, length, heads, dim, begin, end;
  ops::RopePairing pairing;

  RopeCase(std::int64_t batch_, std::int64_t length_, std::int64_t heads_, std::int64_t dim_,
           std::int64_t begin_, std::int64_t end_, ops::RopePairing pairing_)
      : batch(batch_),
        length(length_),
        heads(heads_),
        dim(dim_),
        begin(begin_),
        end(end_),
        pairing(pairing_) {}
  std::vector<OpInput> inputs() const override { return {{"x", {batch * length, heads * dim}}}; }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    return {ops::rope(tape, in.var("x"), heads, begin, end, length, 1000, pairing)};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    const auto pairs =
        pairing == ops::RopePairing::Half ? reference::RopePairs::kHalf : reference::RopePairs::kInterleaved;
    const reference::Array& x = in.at("x");
    return {reference::rope(x.reshaped({x.dim(0), heads, dim}), begin, end - begin, 1000, length, pairs)
                .reshaped(x.shape)};
  }
};

TEST(Rope, InterleavedTail) { check_op(RopeCase(2, 7, 3, 11, 5, 11, ops::RopePairing::Interleaved)); }
TEST(Rope, InterleavedMiddle) { check_op(RopeCase(1, 67, 2, 9, 2, 6, ops::RopePairing::Interleaved)); }
TEST(Rope, HalfWholeHead) { check_op(RopeCase(3, 5, 2, 6, 0, 6, ops::RopePairing::Half)); }
TEST(Rope, HalfOneToken) { check_op(RopeCase(1, 1, 1, 4, 0, 4, ops::RopePairing::Half)); }
TEST(Rope, FarPositions) { check_op(RopeCase(1, 300, 1, 8, 0, 8, ops::RopePairing::Half)); }

TEST(Rope, RefusesOddWidthAndBrokenSequences) {
  device::Device device;
  Tape tape(device);
  const Var x = tape.constant(Tensor(device, {4, 6}, DType::Float32));
  const auto pairing = ops::RopePairing::Half;
  EXPECT_NO_THROW(ops::rope(tape, x, 1, 2, 6, 2, 1000, pairing));
  EXPECT_THROW(ops::rope(tape, x, 1, 0, 3, 2, 1000, pairing), Error);
  EXPECT_THROW(ops::rope(tape, x, 1, 4, 8, 2, 1000, pairing), Error);
  EXPECT_THROW(ops::rope(tape, x, 4, 0, 0, 2, 1000, pairing), Error);
  EXPECT_THROW(ops::rope(tape, x, 1, 0, 6, 3, 1000, pairing), Error);
}

}  // namespace
}  // namespace strata::test
