#include "train/converted_weights.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "checkpoint/hugging_face.h"
#include "checkpoint/weight_set.h"
#include "model/stage.h"
#include "residual/vanilla_start.h"
#include "train/file_shape.h"
#include "train/weights.h"

namespace strata::train {
namespace {

using checkpoint::HostTensor;
using checkpoint::TensorSource;

HostTensor host_tensor(const std::string& name, const Dims& dims, DType dtype,
                       const std::vector<double>& values) {
  HostTensor t{name, dtype, dims, std::vector<std::byte>(values.size() * std::size_t(size_of(dtype)))};
  for_float(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value(values[i]);
      std::memcpy(t.bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return t;
}

// Residual modules of `config`, as they start from a vanilla model.
void add_residual(const RunConfig& config, DType dtype, std::vector<HostTensor>& tensors) {
  const model::ModelConfig& m = config.model;
  device::Device device;
  ParameterStore module;
  const auto unused = residual::make(
      m.residual, {m.hidden_size, int(m.sublayers()), m.initializer_range, {{1}, {int(m.sublayers()) + 1}}},
      module);
  module.allocate(device, dtype, false);
  module.initialize(std::uint64_t(config.run.seed));
  residual::start_as_vanilla(module);
  for (const auto& [name, found] : module.by_name())
    tensors.push_back(
        host_tensor(name, found.slice.dims, dtype, to_host(device, found.master(), "residual weights")));
}

}  // namespace

bool is_router_bias(const std::string& name) { return name.ends_with(".e_score_correction_bias"); }

bool holds_float64(const checkpoint::NamedWeights& weights) {
  return std::any_of(weights.all.begin(), weights.all.end(),
                     [](const auto& w) { return w.second.dtype == "F64"; });
}

std::vector<HostTensor> converted_weights(const ModelSource& source, const RunConfig& target, DType dtype) {
  ParameterStore names;
  const model::Stage stage(source.config.model, {0, int(source.config.model.num_hidden_layers), true, true},
                           names);
  check_weights(names, source.weights);
  std::vector<HostTensor> tensors;
  for (const auto& [name, found] : names.by_name())
    tensors.push_back(host_tensor(name, found.slice.dims, is_router_bias(name) ? acc_of(dtype) : dtype,
                                  source.weights.all.at(name).read()));
  if (source.config.model.residual.type != target.model.residual.type) add_residual(target, dtype, tensors);
  return tensors;
}

std::int64_t bytes_of(const std::vector<HostTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const HostTensor& t : tensors) bytes += std::int64_t(t.bytes.size());
  return bytes;
}

std::vector<TensorSource> sources_of(const std::vector<HostTensor>& tensors) {
  std::vector<TensorSource> sources;
  for (const HostTensor& t : tensors) sources.push_back({t.name, t.dtype, shape_of(t.dims), t.bytes});
  return sources;
}

std::vector<TensorSource> with_copies(const std::vector<HostTensor>& tensors,
                                      const model::ModelConfig& model) {
  std::vector<TensorSource> sources = sources_of(tensors);
  for (const auto& [copy, original] : checkpoint::hugging_face_copies(model)) {
    const auto shared = std::find_if(sources.begin(), sources.end(),
                                     [&o = original](const TensorSource& s) { return s.name == o; });
    STRATA_CHECK(shared != sources.end(), "no weight ", original);
    TensorSource again = *shared;
    again.name = copy;
    sources.push_back(again);
  }
  return sources;
}

std::vector<Shard> make_shards(std::vector<TensorSource> tensors, double max_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<Shard> shards(1);
  double bytes = 0;
  for (TensorSource& t : tensors) {
    if (bytes > 0 && bytes + double(t.bytes.size()) > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += double(t.bytes.size());
    shards.back().tensors.push_back(std::move(t));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char name[64] = "model.safetensors";
    if (shards.size() > 1)
      std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    shards[i].name = name;
  }
  return shards;
}

std::string shard_index(const std::vector<Shard>& shards) {
  std::map<std::string, std::string> file_of_weight;
  std::int64_t bytes = 0;
  for (const Shard& s : shards)
    for (const TensorSource& t : s.tensors) {
      file_of_weight[t.name] = s.name;
      bytes += std::int64_t(t.bytes.size());
    }
  return checkpoint::weight_index(file_of_weight, bytes);
}

}  // namespace strata::train
