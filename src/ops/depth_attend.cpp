#include "ops/depth_attend.h"

#include "ops/depth_kernels.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct DepthAttendNode final : Node {
  std::vector<Var> sources;
  std::vector<ConvSet> convs;
  std::vector<DepthTarget> targets;
  Sequences sequences;
  double eps;
  std::vector<DepthOpened> opened;
  Tensor rstd;

  std::string_view name() const override { return "depth_attend"; }
  std::vector<Tensor> saved() const override {
    std::vector<Tensor> all{rstd};
    for (const Var& s : sources) all.push_back(s.value);
    for (const DepthOpened& o : opened) all.insert(all.end(), {o.out.value, o.lse.value, o.logits});
    return all;
  }
  void refill(Tape& tape) override { forward(tape); }

  std::vector<kernels::DepthSource> all_sources() const {
    std::vector<kernels::DepthSource> all;
    for (std::size_t j = 0; j < sources.size(); ++j) all.push_back(depth_source(sources[j].value, convs[j]));
    return all;
  }
  void forward(Tape& tape) const {
    kernels::DepthAttendForward job{
        .sources = all_sources(), .targets = {}, .sequences = sequences, .eps = eps, .rstd = rstd};
    for (std::size_t k = 0; k < targets.size(); ++k)
      job.targets.push_back({.ask = depth_query(targets[k]),
                             .out = opened[k].out.value,
                             .lse = opened[k].lse.value,
                             .logits = opened[k].logits});
    tape.stream().run(job);
  }
  void backward(Tape& tape) override {
    kernels::DepthAttendBackward job{
        .sources = all_sources(), .dsources = {}, .targets = {}, .sequences = sequences, .rstd = rstd};
    for (std::size_t j = 0; j < sources.size(); ++j)
      job.dsources.push_back(depth_source_grad(tape.grad_into(sources[j]), convs[j]));
    for (std::size_t k = 0; k < targets.size(); ++k)
      job.targets.push_back({.ask = depth_query(targets[k]),
                             .out = opened[k].out.value,
                             .lse = opened[k].lse.value,
                             .logits = opened[k].logits,
                             .dout = tape.grad(opened[k].out),
                             .dlse = tape.grad(opened[k].lse),
                             .dquery = targets[k].query->grad,
                             .dkey_norm = targets[k].key_norm->grad});
    tape.stream().run(job);
  }
};

}  // namespace

void check_depth_source(const Tensor& value, const ConvSet& convs, std::int64_t tokens, std::int64_t views,
                        std::int64_t width) {
  Shapes s("depth retrieval");
  s.bind("T", tokens).bind("M", views).bind("D", width);
  s(value, "source", value.dims().rank == 3 ? "T M D" : "T D");
  STRATA_CHECK(convs.empty() || value.dims().rank == 2, "depth retrieval: streams have no convolutions");
  STRATA_CHECK(convs.empty() || std::int64_t(convs.size()) == views - 1, "depth retrieval: ", convs.size(),
               " convolutions for ", views, " views");
  for (std::size_t r = 0; r < convs.size(); ++r) s(convs[r]->value, "conv", concat("D kernel_", r));
}

void check_depth_target(const DepthTarget& target, std::int64_t views, std::int64_t width) {
  Shapes s("depth retrieval");
  s.bind("M", views).bind("D", width)(target.key_norm->value, "key_norm", "D");
  s(target.query->value, "query", views == 1 && target.query->dims.rank == 1 ? "D" : "M D");
}

std::vector<DepthOpened> depth_attend(Tape& tape, const std::vector<Var>& sources,
                                      const std::vector<ConvSet>& convs,
                                      const std::vector<DepthTarget>& targets, const Sequences& sequences,
                                      std::int64_t views, double eps) {
  STRATA_CHECK(!sources.empty() && !targets.empty(), "depth_attend: ", sources.size(), " sources, ",
               targets.size(), " targets");
  STRATA_CHECK(convs.empty() || convs.size() == sources.size(), "depth_attend: ", convs.size(),
               " sets of convolutions for ", sources.size(), " sources");
  const Tensor& first = sources[0].value;
  const std::int64_t T = first.dim(0), D = first.dim(first.dims().rank - 1);
  STRATA_CHECK(T == sequences.tokens(), "depth_attend: ", T, " tokens in ", sequences.batch, " sequences of ",
               sequences.length);
  const DType full = acc_of(first.dtype());
  const std::int64_t N = std::int64_t(sources.size());
  auto node = std::make_unique<DepthAttendNode>();
  node->sources = sources;
  node->convs = convs;
  node->convs.resize(sources.size());
  for (std::size_t j = 0; j < sources.size(); ++j)
    check_depth_source(sources[j].value, node->convs[j], T, views, D);
  node->targets = targets;
  node->sequences = sequences;
  node->eps = eps;
  node->rstd = tape.empty({N, T, views}, full);
  std::vector<Var> outputs;
  for (const DepthTarget& target : targets) {
    check_depth_target(target, views, D);
    node->opened.push_back({.out = tape.output(tape.empty({T, views, D}, first.dtype())),
                            .lse = tape.output(tape.empty({T, views}, full)),
                            .logits = tape.empty({N, T, views}, full)});
    outputs.insert(outputs.end(), {node->opened.back().out, node->opened.back().lse});
  }
  node->forward(tape);
  std::vector<DepthOpened> opened = node->opened;
  tape.record(std::move(node), outputs);
  return opened;
}

}  // namespace strata::ops
