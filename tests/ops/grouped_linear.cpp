// Expert layers: experts without rows, one expert with all rows, one row, no row at all.
#include "ops/grouped_linear.h"

#include <gtest/gtest.h>

#include "reference/linear.h"
#include "support/op_case.h"

namespace strata::test {
namespace {

struct GroupedLinearCase final : OpCase {
  GroupedLinearCase(reference::Ids offsets_, std::int64_t in_, std::int64_t out_)
      : offsets(std::move(offsets_)), in(in_), out(out_) {}
  reference::Ids offsets;
  std::int64_t in, out;

  std::int64_t experts() const { return std::int64_t(offsets.size()) - 1; }
  std::vector<OpInput> inputs() const override {
    return {{.name = "x", .shape = {offsets.back(), in}},
            {.name = "w", .shape = {experts(), out, in}, .kind = OpInput::Weight}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const Tensor bounds = upload_int(tape.device(), offsets, {experts() + 1});
    return {ops::grouped_linear(tape, args.var("x"), args.weight("w"), bounds)};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::grouped_linear(in.at("x"), in.at("w"), offsets)};
  }
};

TEST(GroupedLinear, UnequalExperts) { check_op(GroupedLinearCase({0, 3, 20, 21, 34}, 13, 7)); }
TEST(GroupedLinear, ExpertsWithoutRows) { check_op(GroupedLinearCase({0, 0, 5, 5, 5, 11, 11}, 7, 5)); }
TEST(GroupedLinear, AllRowsToTheLastExpert) { check_op(GroupedLinearCase({0, 0, 0, 17}, 11, 3)); }
TEST(GroupedLinear, AllRowsToTheFirstExpert) { check_op(GroupedLinearCase({0, 17, 17, 17}, 11, 3)); }
TEST(GroupedLinear, OneRow) { check_op(GroupedLinearCase({0, 0, 1}, 5, 9)); }
TEST(GroupedLinear, OneColumn) { check_op(GroupedLinearCase({0, 4, 10}, 1, 1)); }
TEST(GroupedLinear, SeveralTiles) { check_op(GroupedLinearCase({0, 70, 201}, 67, 71)); }

}  // namespace
}  // namespace strata::test
