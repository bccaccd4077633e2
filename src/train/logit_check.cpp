#include "train/logit_check.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "model/stage.h"
#include "train/weights.h"

namespace strata::train {
namespace {

constexpr std::int64_t kRows = 2, kLength = 20, kBorder = 33;  // a document begins at token kBorder of all

HostBatch sample_batch(std::int64_t vocab_size) {
  HostBatch b{.rows = kRows, .length = kLength, .input_ids = {}, .labels = {}, .documents = {}};
  const Philox random(1, "tokens");
  for (std::int64_t i = 0; i < kRows * kLength; ++i) {
    b.input_ids.push_back(std::int64_t(random.bits(std::uint64_t(i)) % std::uint64_t(vocab_size)));
    b.documents.push_back(i / kLength + (i >= kBorder ? 1 : 0));
  }
  b.labels = b.input_ids;
  return b;
}

}  // namespace

std::vector<double> sample_logits(const model::ModelConfig& model, const checkpoint::NamedWeights& weights) {
  device::Device device;
  ParameterStore store;
  model::Stage stage(model, {0, int(model.num_hidden_layers), true, true}, store);
  store.allocate(device, DType::Float64, false);
  stage.allocate(device);
  load_weights(store, weights);
  const model::MicroBatch batch = model::upload(device, sample_batch(model.vocab_size), false);
  Tape tape(device, {.recording = false, .recompute = {}, .observer = nullptr, .replay = true});
  return to_host(device, stage.logits(tape, batch, kRows * kLength), "logits");
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  STRATA_CHECK(a.size() == b.size(), a.size(), " and ", b.size(), " logits");
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return NAN;
    most = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return most == 0 ? 0 : most / scale;
}

}  // namespace strata::train
