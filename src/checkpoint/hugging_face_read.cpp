// config.json of transformers -> ModelConfig. The file is the truth, not the defaults of transformers'
// classes; where a published file leaves out what its code fixes, that is taken.
#include <algorithm>
#include <set>

#include "base/field_text.h"
#include "base/json_config.h"
#include "base/json_value.h"
#include "checkpoint/hugging_face.h"

namespace strata::checkpoint {
namespace {

using Kind = JsonValue::Kind;

// Keys that change no number of the model.
constexpr const char* kIgnored[] = {
    "_name_or_path", "_attn_implementation", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id",
    "unk_token_id", "sep_token_id", "decoder_start_token_id", "torch_dtype", "dtype", "transformers_version",
    "tokenizer_class", "use_cache", "pretraining_tp", "ep_size", "head_dim", "qk_head_dim", "id2label",
    "label2id", "return_dict", "problem_type", "chunk_size_feed_forward", "pruned_heads",
    "task_specific_params", "prefix", "seq_aux", "output_router_logits",
    // of generate()
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences"};

class Reader {
 public:
  Reader(const std::string& text, const std::string& source)
      : source_(source), root_(parse_json(text, source, Origin::File)) {
    if (root_.kind != Kind::Object) throw InputError(concat(source, " is not a JSON object"));
    for (const char* key : kIgnored) known_.insert(key);
  }

  HuggingFaceModel read() {
    read_family();
    for (const char* key :
         {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank",
          "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "intermediate_size", "rms_norm_eps"})
      pass(key, true);
    for (const char* key :
         {"q_lora_rank", "tie_word_embeddings", "num_nextn_predict_layers", "initializer_range"})
      pass(key);
    allow("hidden_act", {"\"silu\""});
    allow("attention_bias", {"false"});
    allow("attention_dropout", {"0", "0.0"});
    allow("quantization_config", {"null"});
    if (const JsonValue* heads = take("num_attention_heads")) allow("num_key_value_heads", {heads->brief()});
    read_experts();
    read_rope();
    note_balance("aux_loss_alpha");
    note_balance("router_aux_loss_coef");
    read_position_limit();
    refuse_unknown();
    load_config_text(found_.model, "{" + join(members_, ", ") + "}", source_);
    if (found_.model.rms_norm_eps != 1e-6)
      found_.notes.push_back(
          concat("rms_norm_eps ", found_.model.rms_norm_eps,
                 " holds for the latent norms of attention too, where transformers has 1e-6"));
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const JsonValue& value, const std::string& allowed) const {
    throw InputError(concat(source_, ": ", key, " is ", value.brief(), ", allowed is ", allowed));
  }
  // Nothing where the key is not there or null.
  const JsonValue* take(const std::string& key) {
    known_.insert(key);
    const JsonValue* v = root_.find(key);
    return v && v->kind != Kind::Null ? v : nullptr;
  }
  const JsonValue& need(const std::string& key) {
    const JsonValue* v = take(key);
    if (!v) throw InputError(concat(source_, " lacks ", key));
    return *v;
  }
  void set(const std::string& key, const std::string& value) {
    members_.push_back(json_quote(key) + ": " + value);
  }
  // Under the same name; null is as good as absent.
  void pass(const std::string& key, bool is_required = false) {
    const JsonValue* v = is_required ? &need(key) : take(key);
    if (!v) return;
    if (v->kind == Kind::Array || v->kind == Kind::Object) refuse(key, *v, "one value");
    const bool is_word = v->kind == Kind::Boolean;
    set(key, is_word ? v->brief() : v->kind == Kind::String ? json_quote(v->text) : v->text);
  }
  // Absent, null, or one of these.
  void allow(const std::string& key, const std::vector<std::string>& values) {
    const JsonValue* v = take(key);
    if (v && std::find(values.begin(), values.end(), v->brief()) == values.end())
      refuse(key, *v, join(values, " or "));
  }

  void read_family() {
    const JsonValue& type = need("model_type");
    is_v2_ = type.text == "deepseek_v2";
    if (!is_v2_ && type.text != "deepseek_v3")
      refuse("model_type", type, R"("deepseek_v3" or "deepseek_v2")");
    const std::string name = is_v2_ ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM";
    const JsonValue* architectures = take("architectures");
    if (architectures && (architectures->elements.size() != 1 || architectures->elements[0].text != name))
      refuse("architectures", *architectures, "[" + json_quote(name) + "]");
    set("attention", R"("mla")");
  }

  void read_experts() {
    const JsonValue* experts = nullptr;
    for (const char* key : {"n_routed_experts", "num_local_experts", "num_experts"})
      if (const JsonValue* v = take(key)) experts = v;
    if (experts && !experts->is_number()) refuse("n_routed_experts", *experts, "a number");
    const bool has_experts = experts && experts->integer != 0;
    for (const char* key :
         {"moe_intermediate_size", "num_experts_per_tok", "n_shared_experts", "n_group", "topk_group",
          "first_k_dense_replace", "routed_scaling_factor", "norm_topk_prob", "scoring_func", "topk_method"})
      known_.insert(key);
    allow("moe_layer_freq", {"1"});
    if (!has_experts) return;
    set("n_routed_experts", experts->text);
    for (const char* key : {"moe_intermediate_size", "num_experts_per_tok", "first_k_dense_replace",
                            "routed_scaling_factor", "norm_topk_prob"})
      pass(key, true);
    pass("n_shared_experts");
    read_router();
  }

  void read_router() {
    const bool is_sigmoid = !is_v2_;  // each family computes one, whatever the key says
    const std::string scores = is_sigmoid ? R"("sigmoid")" : R"("softmax")";
    const JsonValue* given = take("scoring_func");
    if (given && given->brief() != scores)
      refuse("scoring_func", *given, concat(scores, " in deepseek_v", is_v2_ ? 2 : 3));
    set("scoring_func", scores);
    const JsonValue* groups = take("n_group");
    const bool has_groups = groups && groups->text != "1";
    if (is_sigmoid)
      allow("topk_method", {"\"noaux_tc\""});
    else
      allow("topk_method", {"\"greedy\"", "\"group_limited_greedy\""});
    if (!is_sigmoid && has_groups && need("topk_method").text == "greedy") return;  // it looks at no groups
    pass("n_group", is_sigmoid);
    pass("topk_group", is_sigmoid || has_groups);
    const JsonValue& scale = need("routed_scaling_factor");
    if (!is_sigmoid && need("norm_topk_prob").boolean && scale.real != 1)
      refuse("routed_scaling_factor", scale,
             "1 where scoring_func is softmax and norm_topk_prob is true: implementations differ");
  }

  // rope_theta beside rope_scaling, or both in rope_parameters (transformers 5).
  void read_rope() {
    if (const JsonValue* v = take("rope_interleave")) {
      if (v->kind != Kind::Boolean) refuse("rope_interleave", *v, "true or false");
      found_.rope_interleave = v->boolean;
    }
    const JsonValue* theta = take("rope_theta");
    for (const std::string key : {"rope_scaling", "rope_parameters"}) {
      const JsonValue* rope = take(key);
      if (!rope) continue;
      if (rope->kind != Kind::Object) refuse(key, *rope, "null or an object");
      for (const char* type : {"rope_type", "type"})
        if (const JsonValue* v = rope->find(type); v && v->text != "default")
          refuse(key + "." + type, *v, "\"default\"");
      for (const auto& [name, value] : rope->members) {
        if (name == "rope_type" || name == "type" || value.kind == Kind::Null) continue;
        if (name != "rope_theta") refuse(key + "." + name, value, "null");
        if (theta && theta->real != value.real)
          refuse(key + "." + name, value, theta->text + ", as rope_theta");
        theta = &value;
      }
    }
    if (!theta) throw InputError(concat(source_, " lacks rope_theta"));
    if (!theta->is_number()) refuse("rope_theta", *theta, "a number");
    set("rope_theta", theta->text);
  }

  void note_balance(const std::string& key) {
    const JsonValue* v = take(key);
    if (v && !v->is_number()) refuse(key, *v, "a number");
    if (v && v->real != 0)
      found_.notes.push_back(concat(key, " ", v->brief(),
                                    " is a choice of a training run and not taken over; --set ",
                                    "model.seq_aux_loss_coef=", v->brief(), " takes it"));
  }

  void read_position_limit() {
    const JsonValue* v = take("max_position_embeddings");
    if (!v) return;
    const auto most = std::int64_t(dimension().high);  // of training.seq_length
    if (v->kind != Kind::Integer || v->integer < 1 || v->integer > most)
      refuse("max_position_embeddings", *v, concat("an integer from 1 to ", most));
    found_.max_position_embeddings = v->integer;
  }

  void refuse_unknown() const {
    for (const auto& [key, value] : root_.members) {
      const bool is_off = value.kind == Kind::Null || (value.kind == Kind::Boolean && !value.boolean);
      if (!is_off && !known_.count(key))
        throw InputError(concat(source_, ": ", key, " is ", value.brief(),
                                ", but this program does not know ", key,
                                " and the model may depend on it; allowed are null and false"));
    }
  }

  std::string source_;
  JsonValue root_;
  std::set<std::string> known_;
  std::vector<std::string> members_;  // of our configuration
  bool is_v2_ = false;
  HuggingFaceModel found_;
};

}  // namespace

HuggingFaceModel read_hugging_face(const std::string& text, const std::string& source) {
  return Reader(text, source).read();
}

}  // namespace strata::checkpoint
