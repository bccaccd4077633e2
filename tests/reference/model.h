// The whole model, forward only, from token ids to the total loss: naive, in double, one softmax per
// retrieval.
#pragma once

#include <map>
#include <string>

#include "reference/array.h"

namespace strata::reference {

/// model.residual.*; a field counts only for the types that have it.
struct ResidualSpec {
  std::string type = "vanilla";           ///< vanilla, attnres, msar, mhc, attnres_mhc
  int64_t num_blocks = 0;                 ///< 0: absent, one block per sub-layer (the full form)
  int64_t streams = 4;                    ///< views m of msar, streams n of mhc and attnres_mhc
  Ids kernel_sizes;                       ///< msar, m − 1 of them; empty: the default of m
  std::string expansion = "causal_conv";  ///< or "none"
  std::string fusion = "gate";            ///< or "mean"
  int64_t sinkhorn_iters = 20;
  std::string readout = "head_mix";  ///< or "mean", "sum"
  double key_norm_eps = 1e-6;
};

/// Fields named as in the model configuration.
struct ModelSpec {
  int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  std::string attention = "mla";    ///< or "gqa"
  int64_t num_key_value_heads = 0;  ///< gqa; 0: num_attention_heads
  int64_t head_dim = 0;             ///< gqa; 0: hidden_size / num_attention_heads
  int64_t q_lora_rank = 0;          ///< mla; 0: absent
  int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;  // mla
  int64_t intermediate_size = 0, moe_intermediate_size = 0;
  int64_t n_routed_experts = 0, n_shared_experts = 0, num_experts_per_tok = 0, first_k_dense_replace = 0;
  std::string scoring_func = "sigmoid";
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1.0;
  int64_t n_group = 1, topk_group = 1;
  double seq_aux_loss_coef = 0.0, router_z_loss_coef = 0.0;
  double rms_norm_eps = 1e-6, rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  int64_t num_nextn_predict_layers = 0;  ///< 0 or 1
  double mtp_loss_coef = 0.3;
  ResidualSpec residual;
};

/// By checkpoint name, e.g. "model.layers.0.self_attn.o_proj.weight"; shape [1] for scalars.
using Weights = std::map<std::string, Array>;

/// B rows of T tokens, row-major: one whole global batch.
struct ModelBatch {
  int64_t rows = 0, length = 0;
  Ids input_ids, labels;  ///< [B · T]
  Ids doc_ids;            ///< [B · T], or empty: one document per row
};

struct ModelOutput {
  double loss = 0.0;             ///< lm_loss + aux_loss + mtp_loss_coef · mtp_loss
  double lm_loss = 0.0;          ///< mean over counted tokens
  double aux_loss = 0.0;         ///< balance and z losses of all routers, coefficients included
  double mtp_loss = 0.0;         ///< mean over its counted tokens, before mtp_loss_coef
  Array logits;                  ///< [B, T, V]
  Array token_loss;              ///< [B, T], 0 where ignored
  Array mtp_logits;              ///< [B, T, V]; empty without multi-token prediction
  Array mtp_token_loss;          ///< [B, T]; empty without
  std::vector<Ids> expert_load;  ///< k-th MoE layer (that of multi-token prediction last): [E]
  /// By target l (L + 1 = head): attnres [n, B, T]; msar and attnres_mhc [m, n, B, T].
  std::map<int64_t, Array> depth_weights;
  /// By target l: [B, T, m], msar with gate fusion.
  std::map<int64_t, Array> gates;
  /// h_1 .. h_L before their norm, then the read-out `top`: [B · T, D] each.
  std::vector<Array> sublayer_inputs;
};

/// Throws std::invalid_argument on a spec it does not know, std::out_of_range on a missing weight.
ModelOutput model_forward(const ModelSpec& spec, const Weights& weights, const ModelBatch& batch);

/// κ_1 .. κ_{m−1} of `streams` = m when none are named; throws for an m without a default.
Ids default_kernel_sizes(int64_t streams);

}  // namespace strata::reference
