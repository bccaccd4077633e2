// Sequences with document ids, for op cases.
#pragma once
#include "support/op_case.h"

namespace strata::test {

// Lives on the tape until backward has passed what is recorded after it.
struct KeepNode final : Node {
  Tensor kept;
  std::string_view name() const override { return "keep"; }
  void backward(Tape&) override {}
  std::vector<Tensor> saved() const override { return {kept}; }
};

// Call before the op that takes the result. Empty ids: no documents.
inline Sequences make_sequences(Tape& tape, std::int64_t batch, std::int64_t length,
                                const reference::Ids& ids) {
  Sequences s{.batch = batch, .length = length, .documents = {}};
  if (ids.empty()) return s;
  auto node = std::make_unique<KeepNode>();
  node->kept = upload_int(tape.device(), ids, {batch * length});
  s.documents = node->kept;
  tape.record(std::move(node), {});
  return s;
}

}  // namespace strata::test
