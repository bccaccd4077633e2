// Shapes of a depth retrieval, and the arrays that its jobs of both directions name.
#pragma once
#include "emulate/job_check.h"

namespace strata::testing {

enum class Views { Self, Streams, Convolutions };

struct DepthProblem {
  std::int64_t batch = 2, length = 11, width = 7, sources = 3, targets = 2, views = 3;
  Views kind = Views::Convolutions;
  std::vector<std::int64_t> kernels = {3, 5};  // of views 1..
  std::int64_t document_run = 0, document_ids = 2;
  Write mode = Write::Overwrite;
  bool narrow_grads = false;  // gradients of activations in the compute type

  std::int64_t tokens() const { return batch * length; }
};

inline std::string numbered(const char* what, std::size_t i, std::size_t r = 0) {
  return concat(what, i, "_", r);
}

class DepthArrays : public JobArrays {
 public:
  DepthArrays(DType type, const DepthProblem& p_) : JobArrays(type), p(p_) {
    for (std::int64_t j = 0; j < p.sources; ++j) add_source(j);
    for (std::int64_t k = 0; k < p.targets; ++k) add_target(k);
    empty("rstd", {p.sources, p.tokens(), p.views}, full());
    if (p.document_run == 0) return;
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < p.tokens(); ++t)
      ids.push_back(std::int32_t(t / p.document_run % p.document_ids));
    integers("documents", ids);
  }
  const DepthProblem p;

  DType grad_type() const { return p.narrow_grads ? compute : full(); }
  Dims rows() const { return {p.tokens(), p.views, p.width}; }
  Dims stats() const { return {p.tokens(), p.views}; }
  Sequences sequences(const Place& at) const { return {p.batch, p.length, at("documents")}; }
  kernels::DepthSource source(const Place& at, std::size_t j) const {
    kernels::DepthSource source{.value = at(numbered("value", j)), .conv = {}};
    for (std::size_t r = 1; convolves(r); ++r) source.conv.push_back(at(numbered("conv", j, r)));
    return source;
  }
  kernels::DepthSourceGrad source_grad(const Place& at, std::size_t j) const {
    kernels::DepthSourceGrad grad{.dvalue = {at(numbered("dvalue", j)), p.mode}, .dconv = {}};
    for (std::size_t r = 1; convolves(r); ++r) grad.dconv.push_back(at(numbered("dconv", j, r)));
    return grad;
  }
  kernels::DepthQuery ask(const Place& at, std::size_t k) const {
    return {.query = at(numbered("query", k)), .key_norm = at(numbered("key_norm", k))};
  }

 private:
  bool convolves(std::size_t r) const { return p.kind == Views::Convolutions && std::int64_t(r) < p.views; }
  void add_source(std::size_t j) {
    const Dims dims = p.kind == Views::Streams ? rows() : Dims{p.tokens(), p.width};
    normal(numbered("value", j), dims, compute);
    normal(numbered("dvalue", j), dims, grad_type());
    for (std::size_t r = 1; convolves(r); ++r) {
      normal(numbered("conv", j, r), {p.width, p.kernels.at(r - 1)}, full(), 0.5);
      normal(numbered("dconv", j, r), {p.width, p.kernels.at(r - 1)}, full());
    }
  }
  void add_target(std::size_t k) {
    const Dims query = p.views == 1 ? Dims{p.width} : Dims{p.views, p.width};
    normal(numbered("query", k), query, full(), 0.7);
    normal(numbered("dquery", k), query, full());
    normal(numbered("key_norm", k), {p.width}, full(), 0.3, 1);
    normal(numbered("dkey_norm", k), {p.width}, full());
    empty(numbered("out", k), rows(), compute);
    empty(numbered("lse", k), stats(), full());
    empty(numbered("logits", k), {p.sources, p.tokens(), p.views}, full());
    normal(numbered("dout", k), rows(), grad_type());
    normal(numbered("dlse", k), stats(), full());
  }
};

}  // namespace strata::testing
