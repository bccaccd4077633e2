#include "ops/attention.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

// Where the heads of q, k or v lie in a row of their tensor.
struct Slice {
  std::int64_t heads = 0, dim = 0, offset = 0, head_stride = 0;

  kernels::Heads of(const Tensor& t) const { return {t, offset, heads, dim, t.dim(1), head_stride}; }
  kernels::HeadsGrad of(const Grad& g, const Tensor& t) const {
    return {g, offset, heads, dim, t.dim(1), head_stride};
  }
};

struct AttentionNode final : Node {
  Var q, k, v;   // k and v may be one variable
  Var k_shared;  // or undefined
  Slice q_slice, k_slice, v_slice;
  Sequences sequences;
  double scale;
  Var y;
  Tensor lse;

  std::string_view name() const override { return "attention"; }
  std::vector<Tensor> saved() const override {
    return {q.value, k.value, v.value, k_shared.value, y.value, lse};
  }
  void refill(Tape& tape) override { forward(tape); }
  void forward(Tape& tape) const {
    tape.stream().run(kernels::AttentionForward{.q = q_slice.of(q.value),
                                                .k = k_slice.of(k.value),
                                                .v = v_slice.of(v.value),
                                                .k_shared = k_shared.value,
                                                .sequences = sequences,
                                                .scale = scale,
                                                .y = y.value,
                                                .lse = lse});
  }
  void backward(Tape& tape) override {
    const Grad dq = tape.grad_into(q), dk = tape.grad_into(k);
    const Grad dv = v.slot == k.slot ? dk : tape.grad_into(v);
    tape.stream().run(kernels::AttentionBackward{.dy = tape.grad(y),
                                                 .y = y.value,
                                                 .lse = lse,
                                                 .q = q_slice.of(q.value),
                                                 .k = k_slice.of(k.value),
                                                 .v = v_slice.of(v.value),
                                                 .k_shared = k_shared.value,
                                                 .sequences = sequences,
                                                 .scale = scale,
                                                 .dq = q_slice.of(dq, q.value),
                                                 .dk = k_slice.of(dk, k.value),
                                                 .dv = v_slice.of(dv, v.value),
                                                 .dk_shared = tape.grad_into(k_shared)});
  }
};

// Runs a node whose inputs are set.
Var attend(Tape& tape, std::unique_ptr<AttentionNode> node, std::int64_t width) {
  const Tensor& q = node->q.value;
  STRATA_CHECK(node->sequences.tokens() == q.dim(0), "attention: ", q.dim(0), " tokens, but ",
               node->sequences.batch, " sequences of ", node->sequences.length);
  const std::int64_t past = node->sequences.past, keys = node->k.value.dim(0);
  STRATA_CHECK(keys == q.dim(0) + node->sequences.batch * past, "attention: ", q.dim(0), " queries read ",
               keys, " keys, of which ", past, " in each sequence are earlier ones");
  STRATA_CHECK(past == 0 || !tape.recording(), "attention: no backward with earlier keys");
  node->y = tape.output(tape.empty({q.dim(0), width}, q.dtype()));
  node->lse = tape.empty({node->q_slice.heads, q.dim(0)}, acc_of(q.dtype()));
  node->forward(tape);
  const Var y = node->y;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace

Var mla_attention(Tape& tape, const Var& q, const Var& kv, const Var& k_rope, const MlaHeads& dims,
                  const Sequences& sequences, double scale) {
  const auto [heads, nope, rope, value] = dims;
  Shapes s("mla_attention");
  s(q.value, "q", "T H*(N+P)")(kv.value, "kv", "S H*(N+V)")(k_rope.value, "k_rope", "S P");
  s.bind("H*(N+P)", heads * (nope + rope)).bind("H*(N+V)", heads * (nope + value)).bind("P", rope);
  auto node = std::make_unique<AttentionNode>();
  node->q = q;
  node->k = node->v = kv;
  node->k_shared = k_rope;
  node->q_slice = {heads, nope + rope, 0, nope + rope};
  node->k_slice = {heads, nope, 0, nope + value};
  node->v_slice = {heads, value, nope, nope + value};
  node->sequences = sequences;
  node->scale = scale;
  return attend(tape, std::move(node), heads * value);
}

Var gqa_attention(Tape& tape, const Var& q, const Var& k, const Var& v, const GqaHeads& dims,
                  const Sequences& sequences, double scale) {
  const auto [heads, key_heads, dim] = dims;
  Shapes s("gqa_attention");
  s(q.value, "q", "T H*D")(k.value, "k", "S Hk*D")(v.value, "v", "S Hk*D");
  s.bind("H*D", heads * dim).bind("Hk*D", key_heads * dim);
  STRATA_CHECK(heads % key_heads == 0, "gqa_attention: ", heads, " heads read ", key_heads, " key heads");
  auto node = std::make_unique<AttentionNode>();
  node->q = q;
  node->k = k;
  node->v = v;
  node->q_slice = {heads, dim, 0, dim};
  node->k_slice = node->v_slice = {key_heads, dim, 0, dim};
  node->sequences = sequences;
  node->scale = scale;
  return attend(tape, std::move(node), heads * dim);
}

Var latent_attention(Tape& tape, const Var& q, const Var& latent, const Var& k_rope, std::int64_t heads,
                     const Sequences& sequences, double scale) {
  Shapes s("latent_attention");
  s(latent.value, "latent", "S R")(k_rope.value, "k_rope", "S P");
  const std::int64_t rank = s["R"], width = rank + s["P"];
  s.bind("H*(R+P)", heads * width)(q.value, "q", "T H*(R+P)");
  auto node = std::make_unique<AttentionNode>();
  node->q = q;
  node->k = node->v = latent;
  node->k_shared = k_rope;
  node->q_slice = {heads, width, 0, width};
  node->k_slice = node->v_slice = {1, rank, 0, rank};
  node->sequences = sequences;
  node->scale = scale;
  return attend(tape, std::move(node), heads * rank);
}

}  // namespace strata::ops
