// The sections of the configuration that the optimizer reads.
#pragma once
#include "base/fields.h"

namespace strata::optim {

enum class OptimizerType { AdamW, Sgd };
constexpr auto enum_names(OptimizerType) { return std::array<std::string_view, 2>{"adamw", "sgd"}; }

struct OptimizerSection {
  OptimizerType type = OptimizerType::AdamW;
  double lr = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  // adamw
  double momentum = 0;                           // sgd
  double weight_decay = 0.1;
  double clip_grad = 1.0;                 // global norm; 0: off
  bool use_distributed_optimizer = true;  // ZeRO-1; with one data rank it changes nothing

  void fields(FieldVisitor& v);
  bool operator==(const OptimizerSection&) const = default;
};

enum class LrDecayStyle { Constant, Cosine, Wsd, Step };
constexpr auto enum_names(LrDecayStyle) {
  return std::array<std::string_view, 4>{"constant", "cosine", "WSD", "step"};
}
enum class WsdDecayStyle { Exponential, Linear, Cosine, MinusSqrt };
constexpr auto enum_names(WsdDecayStyle) {
  return std::array<std::string_view, 4>{"exponential", "linear", "cosine", "minus_sqrt"};
}

// Linear warm-up to optimizer.lr, then the style. All counts are optimiser steps.
struct LrScheduleSection {
  LrDecayStyle lr_decay_style = LrDecayStyle::Constant;
  std::int64_t lr_warmup_iters = 0;
  std::optional<std::int64_t> lr_decay_iters = {};      // cosine, WSD: the step at which min_lr is reached
  std::optional<std::int64_t> lr_wsd_decay_iters = {};  // WSD: length of the final decay
  WsdDecayStyle lr_wsd_decay_style = WsdDecayStyle::Exponential;
  std::optional<std::vector<std::int64_t>>
      lr_step_iters;  // step: at each the rate is multiplied by lr_step_factor
  double lr_step_factor = 0.316;
  double min_lr = 0;  // cosine and WSD end here; step never goes below

  // The values in force for a run of `iterations` steps: unset, the decay ends with the run, WSD decays over
  // its last tenth, and the steps come after 80 % and 90 % of it.
  std::int64_t decay_iters(std::int64_t iterations) const;
  std::int64_t wsd_decay_iters(std::int64_t iterations) const;
  std::vector<std::int64_t> step_iters(std::int64_t iterations) const;
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const LrScheduleSection&) const = default;
};

}  // namespace strata::optim
