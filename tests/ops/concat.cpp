// Matrices side by side.
#include "ops/concat.h"

#include <gtest/gtest.h>

#include "support/op_case.h"

namespace strata::test {
namespace {

struct ConcatCase final : OpCase {
  ConcatCase(std::int64_t tokens_, std::int64_t left_, std::int64_t right_)
      : tokens(tokens_), left(left_), right(right_) {}
  std::int64_t tokens, left, right;
  bool same = false;  // one matrix on both sides

  std::vector<OpInput> inputs() const override {
    std::vector<OpInput> list{{.name = "a", .shape = {tokens, left}}};
    if (!same) list.push_back({.name = "b", .shape = {tokens, right}});
    return list;
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::concat_columns(tape, args.var("a"), args.var(same ? "a" : "b"))};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    const reference::Array &a = in.at("a"), &b = in.at(same ? "a" : "b");
    reference::Array y({tokens, a.dim(1) + b.dim(1)});
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < y.dim(1); ++i) y(t, i) = i < a.dim(1) ? a(t, i) : b(t, i - a.dim(1));
    return {y};
  }
};

TEST(ConcatColumns, PrimeSizes) { check_op(ConcatCase(13, 7, 11)); }
TEST(ConcatColumns, OneColumnEach) { check_op(ConcatCase(5, 1, 1)); }
TEST(ConcatColumns, OneToken) { check_op(ConcatCase(1, 3, 8)); }

TEST(ConcatColumns, WithItself) {
  ConcatCase op(5, 3, 3);
  op.same = true;
  check_op(op);
}

}  // namespace
}  // namespace strata::test
