// A small valid run, as text to edit.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json_config.h"
#include "train/config.h"

namespace strata {

inline const std::string kSample = R"({
  "run": {"name": "sample", "seed": 5},
  "model": {
    "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "attention": "mla",
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 64,
    "moe_intermediate_size": 16, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "rms_norm_eps": 1e-6, "residual": {"type": "msar", "num_blocks": 3}
  },
  "data": {"train": [{"path": "corpus"}], "tokenizer": "byte"},
  "training": {"seq_length": 64, "micro_batch_size": 2, "global_batch_size": 8, "train_iters": 100},
  "optimizer": {"lr": 0.003},
  "lr_schedule": {"lr_decay_style": "WSD", "lr_warmup_iters": 10, "lr_wsd_decay_iters": 20}
})";

// The sample with its one occurrence of `from` replaced.
inline std::string edited(const std::string& from, const std::string& to) {
  std::string text = kSample;
  const std::size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos)
    throw Error("the sample must contain once: " + from);
  return text.replace(at, from.size(), to);
}

inline train::RunConfig sample(const std::vector<std::string>& overrides = {}) {
  train::RunConfig config;
  load_config_text(config, kSample, "c.json", overrides);
  return config;
}

// What loading says, or "" if it succeeds.
inline std::string load_error(const std::string& text, const std::vector<std::string>& overrides = {}) {
  train::RunConfig config;
  try {
    load_config_text(config, text, "c.json", overrides);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace strata
