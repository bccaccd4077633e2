// The weights of a converted model in memory, and their distribution over files.
#pragma once
#include "checkpoint/snapshot.h"
#include "train/model_source.h"

namespace strata::train {

bool holds_float64(const checkpoint::NamedWeights& weights);
bool is_router_bias(const std::string& name);

// The weights of `source` and, where `target` has other residual connections than the vanilla ones it has,
// those with which it computes the same; initial values are of target.run.seed. By name, in `dtype`, router
// biases at least in float32. InputError where `source` is not what its configuration says.
std::vector<checkpoint::HostTensor> converted_weights(const ModelSource& source, const RunConfig& target,
                                                      DType dtype);

std::int64_t bytes_of(const std::vector<checkpoint::HostTensor>& tensors);
// The same memory, to be written; with what files of Hugging Face's format hold twice.
std::vector<checkpoint::TensorSource> sources_of(const std::vector<checkpoint::HostTensor>& tensors);
std::vector<checkpoint::TensorSource> with_copies(const std::vector<checkpoint::HostTensor>& tensors,
                                                  const model::ModelConfig& model);

struct Shard {
  std::string name;  // model.safetensors where there is one, model-00001-of-00003.safetensors
  std::vector<checkpoint::TensorSource> tensors;
};
// In the order of the names, none larger than `max_bytes` unless a single tensor is.
std::vector<Shard> make_shards(std::vector<checkpoint::TensorSource> tensors, double max_bytes);
// model.safetensors.index.json
std::string shard_index(const std::vector<Shard>& shards);

}  // namespace strata::train
