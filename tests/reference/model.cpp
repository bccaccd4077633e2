// Embedding, 2 · num_hidden_layers sub-layers joined by a residual state, head, losses, multi-token
// prediction.
#include "reference/model.h"

#include "reference/cross_entropy.h"
#include "reference/embedding.h"
#include "reference/linear.h"
#include "reference/model_branch.h"
#include "reference/model_residual.h"
#include "reference/rms_norm.h"

namespace strata::reference {
namespace {

class Forward {
 public:
  Forward(const ModelSpec& spec, const Weights& weights, const ModelBatch& batch)
      : spec_(spec), weights_(weights), batch_(batch) {
    const size_t tokens = static_cast<size_t>(batch.rows * batch.length);
    require(batch.input_ids.size() == tokens && batch.labels.size() == tokens, "model: B · T ids and labels");
    require(batch.doc_ids.empty() || batch.doc_ids.size() == tokens, "model: B · T document ids, or none");
    require(spec.num_nextn_predict_layers == 0 || spec.num_nextn_predict_layers == 1,
            "model: 0 or 1 MTP layers");
  }

  ModelOutput run() {
    const Array top = trunk();
    const CrossEntropyResult lm = head(top, "model.norm.weight", batch_.labels, out_.logits);
    out_.token_loss = lm.token_loss.reshaped({batch_.rows, batch_.length});
    out_.lm_loss = lm.mean;
    if (spec_.num_nextn_predict_layers == 1) predict_next(top);
    out_.loss = out_.lm_loss + out_.aux_loss + spec_.mtp_loss_coef * out_.mtp_loss;
    return std::move(out_);
  }

 private:
  /// f_l of the attention or MLP half of layer i, its norm included; adds the router's losses and load.
  Array branch(int64_t i, bool is_attention, const Array& h) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const std::string norm = is_attention ? "input_layernorm.weight" : "post_attention_layernorm.weight";
    const Array x = rms_norm(h, weights_.at(layer + norm), spec_.rms_norm_eps);
    if (is_attention) {
      return attention_branch(spec_, weights_, layer + "self_attn.", x, batch_.length, batch_.doc_ids);
    }
    const bool is_moe = i >= spec_.first_k_dense_replace || i == spec_.num_hidden_layers;
    const MlpBranch mlp = mlp_branch(spec_, weights_, layer + "mlp.", is_moe, x, batch_.length);
    if (is_moe) {
      out_.aux_loss += mlp.routed.balance_loss + mlp.routed.z_loss;
      out_.expert_load.push_back(mlp.routed.loads);
    }
    return mlp.out;
  }

  /// Embedding to the read-out before the final norm, [B·T, D].
  Array trunk() {
    const Array h1 = embedding(batch_.input_ids, weights_.at("model.embed_tokens.weight"));
    const auto residual = make_residual_state(spec_, weights_, batch_, h1);
    for (int64_t l = 1; l <= 2 * spec_.num_hidden_layers; ++l) {
      const Array h = residual->read(l);
      out_.sublayer_inputs.push_back(h);
      residual->write(l, branch((l - 1) / 2, l % 2 == 1, h));
    }
    const Array top = residual->top();
    out_.sublayer_inputs.push_back(top);
    out_.depth_weights = residual->depth_weights;
    out_.gates = residual->gates;
    return top;
  }

  CrossEntropyResult head(const Array& h, const std::string& norm, const Ids& labels, Array& logits_out) {
    const Array& weight =
        weights_.at(spec_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
    const Array logits = linear(rms_norm(h, weights_.at(norm), spec_.rms_norm_eps), weight);
    logits_out = logits.reshaped({batch_.rows, batch_.length, spec_.vocab_size});
    return cross_entropy(logits, labels);
  }

  /// id_{t+1} of the row, 0 after the last token.
  Ids next_ids() const {
    Ids next(batch_.input_ids.size(), 0);
    for (size_t t = 0; t + 1 < next.size(); ++t) {
      if ((t + 1) % static_cast<size_t>(batch_.length) != 0) next[t] = batch_.input_ids[t + 1];
    }
    return next;
  }

  /// labels[t+1] where both labels are counted and both tokens are of one row and one document, else ignored.
  Ids next_labels() const {
    Ids next(batch_.labels.size(), kIgnoredLabel);
    for (size_t t = 0; t + 1 < next.size(); ++t) {
      const int64_t here = static_cast<int64_t>(t);
      if (!sees(here, here + 1, batch_.length, batch_.doc_ids)) continue;
      if (batch_.labels[t] != kIgnoredLabel) next[t] = batch_.labels[t + 1];
    }
    return next;
  }

  void predict_next(const Array& top) {
    const int64_t i = spec_.num_hidden_layers, tokens = top.dim(0), width = spec_.hidden_size;
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const Array next = embedding(next_ids(), weights_.at("model.embed_tokens.weight"));
    const Array left = rms_norm(next, weights_.at(layer + "enorm.weight"), spec_.rms_norm_eps);
    const Array right = rms_norm(top, weights_.at(layer + "hnorm.weight"), spec_.rms_norm_eps);
    Array both({tokens, 2 * width});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t c = 0; c < width; ++c) {
        both(t, c) = left(t, c);
        both(t, width + c) = right(t, c);
      }
    }
    Array h = linear(both, weights_.at(layer + "eh_proj.weight"));
    h = add(h, branch(i, true, h));
    h = add(h, branch(i, false, h));
    const CrossEntropyResult mtp = head(h, layer + "shared_head.norm.weight", next_labels(), out_.mtp_logits);
    out_.mtp_token_loss = mtp.token_loss.reshaped({batch_.rows, batch_.length});
    out_.mtp_loss = mtp.mean;
  }

  const ModelSpec& spec_;
  const Weights& weights_;
  const ModelBatch& batch_;
  ModelOutput out_;
};

}  // namespace

ModelOutput model_forward(const ModelSpec& spec, const Weights& weights, const ModelBatch& batch) {
  return Forward(spec, weights, batch).run();
}

Ids default_kernel_sizes(int64_t streams) {
  switch (streams) {
    case 1:
      return {};
    case 2:
      return {4};
    case 3:
      return {4, 8};
    case 4:
      return {4, 8, 12};
    case 8:
      return {2, 4, 6, 8, 10, 12, 16};
    default:
      throw std::invalid_argument("reference: msar with this many streams must name its kernel sizes");
  }
}

}  // namespace strata::reference
