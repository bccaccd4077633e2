#include "train/trace.h"

#include "train/file_shape.h"

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

// [T,C] of each micro-batch -> [B,S,C].
TraceTensor join_rows(const std::vector<Collector::Part>& parts, const HostBatch& batch) {
  TraceTensor t{{batch.rows, batch.length, parts.at(0).dims[1]}, {}};
  for (const auto& p : parts) t.values.insert(t.values.end(), p.values.begin(), p.values.end());
  return t;
}

// [M,N,T] of each micro-batch -> [M,N,B,S]; without the first axis where M is 1 and `drop_views`.
TraceTensor join_last(const std::vector<Collector::Part>& parts, const HostBatch& batch, bool drop_views) {
  const std::int64_t M = parts.at(0).dims[0], N = parts.at(0).dims[1];
  TraceTensor t{{M, N, batch.rows, batch.length}, {}};
  if (drop_views) t.shape.erase(t.shape.begin());
  for (std::int64_t row = 0; row < M * N; ++row)
    for (const auto& p : parts) {
      const std::int64_t T = p.dims[2];
      t.values.insert(t.values.end(), p.values.begin() + row * T, p.values.begin() + (row + 1) * T);
    }
  return t;
}

void add_observed(TraceTensors& out, const Collector& seen, const HostBatch& batch, bool drop_views) {
  for (const auto& [name, parts] : seen.parts()) {
    if (name == "logits")
      out[name] = join_rows(parts, batch);
    else if (name.starts_with("gate."))
      out["trace." + name] = join_rows(parts, batch);
    else if (name.starts_with("depth_weights."))
      out["trace." + name] = join_last(parts, batch, drop_views);
  }
}

void add_gradients(TraceTensors& out, Trainer& trainer, device::Device& device) {
  for (const auto& [name, found] : trainer.store().by_name())
    if (found.parameter)
      out["grad." + name] = {shape_of(found.slice.dims), to_host(device, found.grad(), "trace")};
}

void add_trained(TraceTensors& out, Trainer& trainer, device::Device& device) {
  for (const auto& [name, found] : trainer.store().by_name())
    out["trained." + name] = {shape_of(found.slice.dims), to_host(device, found.master(), "trace")};
}

}  // namespace

TraceTensors trace(Trainer& trainer, const RunConfig& config, const HostBatch& batch, std::int64_t steps) {
  device::Device& device = trainer.device();
  Collector seen(device);
  trainer.reset_loads();
  const StepResult first = trainer.gradients(batch, &seen);
  TraceTensors out;
  const auto scalar = [](double v) { return TraceTensor{{1}, {v}}; };
  out["loss"] = scalar(first.loss);
  out["lm_loss"] = scalar(first.lm_loss);
  out["aux_loss"] = scalar(first.aux_loss);
  out["mtp_loss"] = scalar(first.mtp_loss);
  out["token_loss"] = {{batch.rows, batch.length}, trainer.token_losses()};
  add_observed(out, seen, batch, config.model.residual.type == residual::Type::AttnRes);
  add_gradients(out, trainer, device);
  const std::vector<nn::Moe*> moes = trainer.stage().moes();
  for (std::size_t k = 0; k < moes.size(); ++k) {
    const std::vector<double> load = to_host(device, moes[k]->load(), "trace");
    out[concat("expert_load.", k)] = {{std::int64_t(load.size())}, load};
  }
  if (steps == 0) return out;
  trainer.reset_loads();
  TraceTensor losses{{steps}, {}}, norms{{steps}, {}};
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepResult r = trainer.step(batch);
    losses.values.push_back(r.loss);
    norms.values.push_back(r.grad_norm);
  }
  out["train.loss"] = losses;
  out["train.grad_norm"] = norms;
  add_trained(out, trainer, device);
  return out;
}

}  // namespace strata::train
