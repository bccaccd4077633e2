#include "train/trace.h"

#include "train/file_shape.h"
#include "train/gather.h"

namespace strata::train {
namespace {

// Collects observed values of all micro-batches, in order.
class Collector final : public Observer {
 public:
  explicit Collector(device::Device& device) : device_(device) {}
  bool wants(const std::string& name) const override { return !name.starts_with("output."); }
  void observe(const std::string& name, const Tensor& value) override {
    parts_[name].push_back({value.dims(), to_host(device_, value, "trace")});
  }
  struct Part {
    Dims dims;
    std::vector<double> values;
  };
  const std::map<std::string, std::vector<Part>>& parts() const { return parts_; }

 private:
  device::Device& device_;
  std::map<std::string, std::vector<Part>> parts_;
};

// A name's parts by the number of the micro-batch in the global batch.
using Parts = std::map<int, TraceTensor>;

// [T,C] of each micro-batch -> [B,S,C], or [T] -> [B,S].
TraceTensor join_rows(const Parts& parts, const HostBatch& batch) {
  TraceTensor t{{batch.rows, batch.length}, {}};
  const std::vector<std::int64_t>& shape = parts.begin()->second.shape;
  t.shape.insert(t.shape.end(), shape.begin() + 1, shape.end());
  for (const auto& [number, p] : parts) t.values.insert(t.values.end(), p.values.begin(), p.values.end());
  return t;
}

// [M,N,T] of each micro-batch -> [M,N,B,S]; without the first axis where M is 1 and `drop_views`.
TraceTensor join_last(const Parts& parts, const HostBatch& batch, bool drop_views) {
  const std::vector<std::int64_t>& shape = parts.begin()->second.shape;
  const std::int64_t M = shape[0], N = shape[1];
  TraceTensor t{{M, N, batch.rows, batch.length}, {}};
  if (drop_views) t.shape.erase(t.shape.begin());
  for (std::int64_t row = 0; row < M * N; ++row)
    for (const auto& [number, p] : parts) {
      const std::int64_t T = p.shape[2];
      t.values.insert(t.values.end(), p.values.begin() + row * T, p.values.begin() + (row + 1) * T);
    }
  return t;
}

// "NAME@MICRO-BATCH" of all ranks -> NAME.
TraceTensors join(const TraceTensors& all, const HostBatch& batch, bool drop_views) {
  TraceTensors out;
  std::map<std::string, Parts> cut;
  for (const auto& [name, tensor] : all) {
    const std::size_t at = name.rfind('@');
    if (at == std::string::npos)
      out[name] = tensor;
    else
      cut[name.substr(0, at)][std::stoi(name.substr(at + 1))] = tensor;
  }
  for (const auto& [name, parts] : cut)
    out[name] = name.starts_with("trace.depth_weights.") ? join_last(parts, batch, drop_views)
                                                         : join_rows(parts, batch);
  return out;
}

class Tracer {
 public:
  Tracer(Trainer& trainer, const HostBatch& batch) : trainer_(trainer), batch_(batch) {}

  // What this rank saw of its micro-batches.
  void add_observed(TraceTensors& out, const Collector& seen) const {
    for (const auto& [name, parts] : seen.parts())
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (!parts[i].values.empty())
          out[concat(name == "logits" ? "" : "trace.", name, "@", number(i))] = {shape_of(parts[i].dims),
                                                                                 parts[i].values};
    const std::vector<double>& losses = trainer_.token_losses();
    std::size_t at = 0;
    const std::vector<HostBatch> mine = trainer_.micro_batches(batch_);
    for (std::size_t i = 0; i < mine.size() && at < losses.size(); ++i) {
      const std::size_t tokens = mine[i].input_ids.size();
      if (tokens > 0)
        out[concat("token_loss@", number(i))] = {{std::int64_t(tokens)},
                                                 {losses.begin() + at, losses.begin() + at + tokens}};
      at += tokens;
    }
  }
  void add_gradients(TraceTensors& out) const {
    for (const auto& [name, found] : trainer_.store().by_name())
      if (found.parameter && trainer_.groups().speaks_for(*found.parameter))
        add(out, "grad." + name, found.slice.dims, found.grad());
  }
  void add_trained(TraceTensors& out) const {
    const auto& names = trainer_.store().by_name();
    trainer_.optimizer().visit_masters([&](const std::string& name, const Tensor& master) {
      if (trainer_.groups().speaks_for(*names.at(name).parameter))
        add(out, "trained." + name, master.dims(), master);
    });
    for (const Buffer& b : trainer_.store().buffers())
      if (first_replica()) add(out, "trained." + b.name, b.dims, b.value);
  }
  // k-th MoE layer of the model.
  void add_loads(TraceTensors& out, const model::ModelConfig& config) const {
    if (!first_replica()) return;
    for (const auto& [layer, moe] : trainer_.moes()) {
      const std::vector<double> load = to_host(trainer_.device(), moe->load(), "trace");
      const std::int64_t k = layer - config.first_k_dense_replace;
      out[concat("expert_load.", k)] = {{std::int64_t(load.size())}, load};
    }
  }

 private:
  const comm::Mesh& mesh() const { return trainer_.mesh(); }
  int number(std::size_t micro_batch) const {
    return int(micro_batch) * mesh().shape().data + mesh().data_rank();
  }
  bool first_replica() const { return mesh().data_rank() == 0; }
  void add(TraceTensors& out, const std::string& name, const Dims& dims, const Tensor& t) const {
    out[name] = {shape_of(dims), to_host(trainer_.device(), t, "trace")};
  }

  Trainer& trainer_;
  const HostBatch& batch_;
};

}  // namespace

TraceTensors trace(Trainer& trainer, const RunConfig& config, const HostBatch& batch, std::int64_t steps,
                   Seen what) {
  const Tracer tracer(trainer, batch);
  Collector seen(trainer.device());
  trainer.reset_loads();
  const StepResult first = trainer.gradients(batch, what == Seen::Everything ? &seen : nullptr);
  trainer.gather_gradients();
  TraceTensors mine;
  tracer.add_observed(mine, seen);
  tracer.add_gradients(mine);
  tracer.add_loads(mine, config.model);
  TraceTensor losses{{steps}, {}}, norms{{steps}, {}};
  if (steps > 0) trainer.reset_loads();
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepResult r = trainer.step(batch);
    losses.values.push_back(r.loss);
    norms.values.push_back(r.grad_norm);
  }
  if (steps > 0) tracer.add_trained(mine);
  TraceTensors out =
      join(gather(trainer.mesh().all(), mine), batch, config.model.residual.type == residual::Type::AttnRes);
  const auto scalar = [](double v) { return TraceTensor{{1}, {v}}; };
  out["loss"] = scalar(first.loss);
  out["lm_loss"] = scalar(first.lm_loss);
  out["aux_loss"] = scalar(first.aux_loss);
  out["mtp_loss"] = scalar(first.mtp_loss);
  if (steps == 0) return out;
  out["train.loss"] = losses;
  out["train.grad_norm"] = norms;
  return out;
}

}  // namespace strata::train
