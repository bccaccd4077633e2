// Weights of transformers by our names, which are the same but for what is packed, copied or turned.
#include <memory>

#include "checkpoint/hugging_face.h"

namespace strata::checkpoint {
namespace {

using Values = std::vector<double>;

// For every head of `head` rows, the last `rope` rows from (x_0.., y_0..) to (x_0, y_0, x_1, ..).
Values interleaved(const Values& from, std::int64_t columns, std::int64_t head, std::int64_t rope) {
  Values to = from;
  const std::int64_t rows = std::int64_t(from.size()) / columns, half = rope / 2;
  for (std::int64_t first = head - rope; first < rows; first += head)
    for (std::int64_t i = 0; i < half; ++i)
      for (std::int64_t which = 0; which < 2; ++which)
        std::copy_n(from.begin() + (first + i + which * half) * columns, columns,
                    to.begin() + (first + 2 * i + which) * columns);
  return to;
}

void turn_rows(NamedWeights& weights, const model::ModelConfig& m) {
  for (auto& [name, w] : weights.all) {
    const bool is_latent = name.ends_with(".self_attn.kv_a_proj_with_mqa.weight");
    const bool is_query =
        name.ends_with(".self_attn.q_proj.weight") || name.ends_with(".self_attn.q_b_proj.weight");
    const std::int64_t head = (is_latent ? m.kv_lora_rank : m.qk_nope_head_dim) + m.qk_rope_head_dim;
    const std::int64_t rows = is_latent ? head : head * m.num_attention_heads;
    if ((!is_latent && !is_query) || w.shape.size() != 2 || w.shape[0] != rows) continue;
    w.read = [read = std::move(w.read), columns = w.shape[1], head, rope = m.qk_rope_head_dim] {
      return interleaved(read(), columns, head, rope);
    };
  }
}

// mlp.experts.gate_up_proj [E, 2F, D] and mlp.experts.down_proj [E, D, F], one matrix after the other.
void split_experts(NamedWeights& weights, const WeightSet& set) {
  std::vector<std::string> fused;
  for (const auto& [name, w] : weights.all)
    if (w.shape.size() == 3 &&
        (name.ends_with(".mlp.experts.gate_up_proj") || name.ends_with(".mlp.experts.down_proj")))
      fused.push_back(name);
  for (const std::string& name : fused) {
    const NamedWeight whole = weights.all.at(name);
    const auto file = std::make_shared<const SafetensorsFile>(set.file_of(name));
    const bool is_pair = name.ends_with("gate_up_proj");
    if (is_pair && whole.shape[1] % 2 != 0)
      throw InputError(concat(weights.path, ": ", name, " has ", whole.shape[1],
                              " rows an expert, expected as many of gate_proj as of up_proj"));
    const std::string prefix = name.substr(0, name.rfind('.') + 1);
    const std::vector<std::int64_t> shape{is_pair ? whole.shape[1] / 2 : whole.shape[1], whole.shape[2]};
    const std::int64_t size = shape[0] * shape[1];
    weights.all.erase(name);
    for (std::int64_t e = 0; e < whole.shape[0]; ++e)
      for (int k = 0; k < (is_pair ? 2 : 1); ++k) {
        const char* part = !is_pair ? ".down_proj.weight" : k == 0 ? ".gate_proj.weight" : ".up_proj.weight";
        const std::int64_t from = (is_pair ? 2 * e + k : e) * size;
        const std::string single = concat(prefix, e, part);
        const NamedWeight w{shape, whole.dtype,
                            [file, name, from, size] { return file->floats(name, from, size); }};
        if (!weights.all.emplace(single, w).second)
          throw InputError(concat(weights.path, ": both ", single, " and ", name, " are there"));
      }
  }
}

void drop_copies(NamedWeights& weights, const model::ModelConfig& m) {
  auto copies = hugging_face_copies(m);
  if (m.tie_word_embeddings) copies.emplace_back("lm_head.weight", "model.embed_tokens.weight");
  for (const auto& [copy, original] : copies) {
    const auto found = weights.all.find(copy), shared = weights.all.find(original);
    if (found == weights.all.end() || shared == weights.all.end()) continue;
    if (found->second.shape != shared->second.shape || found->second.read() != shared->second.read())
      throw InputError(concat(weights.path, ": ", copy, " differs from ", original,
                              ", which it is a copy of in a model that this program knows"));
    weights.all.erase(found);
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> hugging_face_copies(const model::ModelConfig& m) {
  if (!m.has_mtp()) return {};
  const std::string prefix = concat("model.layers.", m.num_hidden_layers, ".");
  const std::string embedding = "model.embed_tokens.weight";
  return {{prefix + "embed_tokens.weight", embedding},
          {prefix + "shared_head.head.weight", m.tie_word_embeddings ? embedding : "lm_head.weight"}};
}

NamedWeights hugging_face_weights(const WeightSet& set, HuggingFaceModel& found) {
  NamedWeights weights = named_weights(set);
  std::erase_if(weights.all, [](const auto& w) { return w.first.ends_with(".rotary_emb.inv_freq"); });
  model::ModelConfig& m = found.model;
  const std::string next = concat("model.layers.", m.num_hidden_layers, ".");
  const auto at = weights.all.lower_bound(next);
  if (m.has_mtp() && (at == weights.all.end() || !at->first.starts_with(next))) {
    m.num_nextn_predict_layers = 0;
    found.notes.push_back(concat("num_nextn_predict_layers is 1, but no weight is named ", next,
                                 "...: the model comes without multi-token prediction"));
  }
  split_experts(weights, set);
  drop_copies(weights, m);
  if (!found.rope_interleave) turn_rows(weights, m);
  return weights;
}

}  // namespace strata::checkpoint
