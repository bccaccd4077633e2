// Sums: both gradients are the sum's, also where both terms are one value and where the sum's gradient is
// wide.
#include "ops/add.h"

#include <gtest/gtest.h>

#include "support/op_case.h"

namespace strata::test {
namespace {

struct AddCase final : OpCase {
  bool wide = false, other_reader = false;

  std::vector<OpInput> inputs() const override {
    return {{.name = "a", .shape = {7, 11}}, {.name = "b", .shape = {7, 11}}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const Var &a = args.var("a"), &b = args.var("b");
    const auto type = wide ? std::optional(acc_of(a.value.dtype())) : std::nullopt;
    const Var y = ops::add(tape, a, b, type);
    if (!other_reader) return {y};
    return {ops::add(tape, y, a, type), ops::add(tape, b, y, type)};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    const reference::Array y = reference::add(in.at("a"), in.at("b"));
    if (!other_reader) return {y};
    return {reference::add(y, in.at("a")), reference::add(in.at("b"), y)};
  }
};

TEST(Add, TwoTerms) { check_op(AddCase()); }

TEST(Add, WideGradient) {
  AddCase op;
  op.wide = true;
  check_op(op);
}

TEST(Add, SharedTerms) {
  AddCase op;
  op.other_reader = true;
  check_op(op);
  op.wide = true;
  check_op(op);
}

struct DoubleCase final : OpCase {
  std::vector<OpInput> inputs() const override { return {{.name = "a", .shape = {5, 3}}}; }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::add(tape, args.var("a"), args.var("a"))};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::add(in.at("a"), in.at("a"))};
  }
};

TEST(Add, ToItself) { check_op(DoubleCase()); }

}  // namespace
}  // namespace strata::test
