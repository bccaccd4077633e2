// One class per residual type. Blocked types keep every completed source b_0 .. b_n and the running partial
// sum, and retrieve over all of them in one softmax.
#include "reference/model_residual.h"

#include "reference/depth_retrieval.h"
#include "reference/fusion.h"
#include "reference/hyper_connection.h"

namespace strata::reference {
namespace {

/// What every type knows: the names of its weights and the size of the problem.
struct Context {
  const ModelSpec& spec;
  const Weights& weights;
  const ModelBatch& batch;

  int64_t sub_layers() const { return 2 * spec.num_hidden_layers; }
  double eps() const { return spec.residual.key_norm_eps; }

  /// Weight of target l; L + 1 is the head.
  const Array& weight(int64_t l, const std::string& name) const {
    if (l == sub_layers() + 1) return weights.at("model.out_res." + name);
    const std::string part = l % 2 == 1 ? ".attn_res." : ".mlp_res.";
    return weights.at("model.layers." + std::to_string((l - 1) / 2) + part + name);
  }

  HyperParameters hyper(int64_t l) const {
    return {weight(l, "phi.weight"),
            weight(l, "alpha_pre").data.at(0),
            weight(l, "alpha_post").data.at(0),
            weight(l, "alpha_res").data.at(0),
            weight(l, "bias_pre"),
            weight(l, "bias_post"),
            weight(l, "bias_res")};
  }

  HyperCoefficients coefficients(int64_t l, const Array& x) const {
    return hyper_coefficients(x, hyper(l), spec.residual.sinkhorn_iters, eps());
  }

  Array read_out(const Array& x) const {
    const std::string& readout = spec.residual.readout;
    if (readout == "mean") return fuse_mean(x);
    if (readout == "sum") return fuse_sum(x);
    require(readout == "head_mix", "unknown readout");
    const int64_t head = sub_layers() + 1;
    const double alpha = weight(head, "alpha").data.at(0);
    return hyper_pre_mix(x,
                         head_mix_gates(x, weight(head, "phi.weight"), alpha, weight(head, "bias"), eps()));
  }
};

class Vanilla : public ResidualState {
 public:
  explicit Vanilla(const Array& h1) : h_(h1) {}
  Array read(int64_t) override { return h_; }
  void write(int64_t, const Array& y) override { h_ = add(h_, y); }
  Array top() override { return h_; }

 private:
  Array h_;
};

class Mhc : public ResidualState {
 public:
  Mhc(const Context& context, const Array& h1)
      : context_(context), streams_(copy_to_streams(h1, context.spec.residual.streams)) {}

  Array read(int64_t l) override {
    now_ = context_.coefficients(l, streams_);
    return hyper_pre_mix(streams_, now_.pre);
  }
  void write(int64_t, const Array& y) override { streams_ = hyper_write(streams_, y, now_.res, now_.post); }
  Array top() override { return context_.read_out(streams_); }

 private:
  Context context_;
  Array streams_;
  HyperCoefficients now_;
};

/// Completed sources and the partial sum of the open block; both are [B·T, D] or [B·T, n, D].
class Blocked : public ResidualState {
 public:
  Blocked(const Context& context, const Array& b0) : context_(context), completed_{b0} {}

 protected:
  bool opens_block(int64_t l) const { return l == 1 || block(l) != block(l - 1); }
  bool closes_block(int64_t l) const { return l == context_.sub_layers() || block(l) != block(l + 1); }

  /// Sources of target l: every completed block, and the partial sum where one is running.
  std::vector<Array> sources() const {
    std::vector<Array> all = completed_;
    if (!partial_.empty()) all.push_back(partial_);
    return all;
  }

  void set_partial(int64_t l, Array partial) {
    partial_ = std::move(partial);
    if (!closes_block(l)) return;
    completed_.push_back(partial_);
    partial_ = Array();
  }

  void add_to_partial(int64_t l, const Array& y) { set_partial(l, opens_block(l) ? y : add(partial_, y)); }

  /// [..., B·T] as [..., B, T].
  Array by_row(const Array& a) const {
    std::vector<int64_t> shape(a.shape.begin(), a.shape.end() - 1);
    shape.push_back(context_.batch.rows);
    shape.push_back(context_.batch.length);
    return a.reshaped(shape);
  }

  DepthSpec depth_spec(DepthViews views) const {
    return {views, context_.eps(), context_.batch.length, context_.batch.doc_ids};
  }

  Context context_;
  std::vector<Array> completed_;
  Array partial_;

 private:
  int64_t block(int64_t l) const {
    return block_of(l, context_.sub_layers(), context_.spec.residual.num_blocks);
  }
};

class AttnRes : public Blocked {
 public:
  using Blocked::Blocked;

  Array read(int64_t l) override { return l == 1 ? completed_[0] : retrieve(l); }
  void write(int64_t l, const Array& y) override { add_to_partial(l, y); }
  Array top() override { return retrieve(context_.sub_layers() + 1); }

 private:
  Array retrieve(int64_t l) {
    const DepthRetrieval found = depth_retrieve(sources(), context_.weight(l, "query"),
                                                context_.weight(l, "key_norm.weight"), context_.eps());
    depth_weights[l] = by_row(found.weights);
    return found.z;
  }
};

class Msar : public Blocked {
 public:
  using Blocked::Blocked;

  Array read(int64_t l) override { return l == 1 ? completed_[0] : retrieve(l); }
  void write(int64_t l, const Array& y) override { add_to_partial(l, y); }
  Array top() override { return retrieve(context_.sub_layers() + 1); }

 private:
  /// Convolutions of source j, views 1 .. m−1. The partial sum of block n comes after b_0 .. b_{n−1}: index
  /// n, set n.
  std::vector<Array> taps(size_t j) const {
    const ResidualSpec& residual = context_.spec.residual;
    const Ids sizes =
        residual.kernel_sizes.empty() ? default_kernel_sizes(residual.streams) : residual.kernel_sizes;
    require(static_cast<int64_t>(sizes.size()) == residual.streams - 1,
            "msar: one kernel size per convolved view");
    std::vector<Array> result;
    for (size_t r = 1; r <= sizes.size(); ++r) {
      const std::string name =
          "model.residual_sources." + std::to_string(j) + ".conv." + std::to_string(r) + ".weight";
      result.push_back(context_.weights.at(name));
      require(result.back().dim(1) == sizes[r - 1], "msar: a convolution has another kernel size");
    }
    return result;
  }

  Array retrieve(int64_t l) {
    const ResidualSpec& residual = context_.spec.residual;
    require(residual.expansion == "causal_conv" || residual.expansion == "none", "unknown expansion");
    const bool convolve = residual.expansion == "causal_conv";
    const std::vector<Array> from = sources();
    std::vector<std::vector<Array>> all_taps;
    for (size_t j = 0; convolve && j < from.size(); ++j) all_taps.push_back(taps(j));
    const Array& query = context_.weight(l, "query");
    require(query.dim(0) == residual.streams, "msar: one query per view");
    const DepthViewsRetrieval found =
        depth_retrieve_views(from, query, context_.weight(l, "key_norm.weight"), all_taps,
                             depth_spec(convolve ? DepthViews::kCausalConv : DepthViews::kSelf));
    depth_weights[l] = by_row(found.weights);
    if (residual.fusion == "mean") return fuse_mean(found.z);
    require(residual.fusion == "gate", "unknown fusion");
    const Array gate =
        fusion_gates(found.z, context_.weight(l, "gate.weight"), context_.weight(l, "gate.scale").data.at(0),
                     context_.weight(l, "gate.bias"), context_.eps());
    gates[l] = gate.reshaped({context_.batch.rows, context_.batch.length, residual.streams});
    return fuse_gated(found.z, gate);
  }
};

class AttnResMhc : public Blocked {
 public:
  using Blocked::Blocked;

  Array read(int64_t l) override {
    const Array z = retrieve(l);
    now_ = context_.coefficients(l, z);
    return hyper_pre_mix(z, now_.pre);
  }
  void write(int64_t l, const Array& y) override {
    set_partial(l,
                opens_block(l) ? hyper_spread(y, now_.post) : hyper_write(partial_, y, now_.res, now_.post));
  }
  Array top() override { return context_.read_out(retrieve(context_.sub_layers() + 1)); }

 private:
  Array retrieve(int64_t l) {
    const DepthViewsRetrieval found =
        depth_retrieve_views(sources(), context_.weight(l, "query"), context_.weight(l, "key_norm.weight"),
                             {}, depth_spec(DepthViews::kStream));
    depth_weights[l] = by_row(found.weights);
    return found.z;
  }

  HyperCoefficients now_;
};

}  // namespace

int64_t block_of(int64_t l, int64_t sub_layers, int64_t num_blocks) {
  if (num_blocks == 0) return l;
  const int64_t size = (sub_layers + num_blocks - 1) / num_blocks;
  return (l - 1) / size + 1;
}

std::unique_ptr<ResidualState> make_residual_state(const ModelSpec& spec, const Weights& weights,
                                                   const ModelBatch& batch, const Array& h1) {
  const Context context{spec, weights, batch};
  const std::string& type = spec.residual.type;
  if (type == "vanilla") return std::make_unique<Vanilla>(h1);
  if (type == "mhc") return std::make_unique<Mhc>(context, h1);
  if (type == "attnres") return std::make_unique<AttnRes>(context, h1);
  if (type == "msar") return std::make_unique<Msar>(context, h1);
  require(type == "attnres_mhc", "unknown residual type");
  return std::make_unique<AttnResMhc>(context, copy_to_streams(h1, spec.residual.streams));
}

}  // namespace strata::reference
