#include "optim/config.h"

#include "base/error.h"

namespace strata::optim {

void OptimizerSection::fields(FieldVisitor& v) {
  v("type", type, "optimiser");
  const bool adamw = type == OptimizerType::AdamW;
  v("lr", lr, "peak learning rate", at_least(0));
  v("beta1", beta1, "decay of the first moment", from_below(0, 1).only(adamw, "type is adamw"));
  v("beta2", beta2, "decay of the second moment", from_below(0, 1).only(adamw, "type is adamw"));
  v("eps", eps, "added to the root of the second moment", above(0).only(adamw, "type is adamw"));
  v("momentum", momentum, "decay of the velocity", from_below(0, 1).only(!adamw, "type is sgd"));
  v("weight_decay", weight_decay, "decoupled weight decay", at_least(0));
  v("clip_grad", clip_grad, "largest global gradient norm; 0: off", at_least(0));
  v("use_distributed_optimizer", use_distributed_optimizer,
    "moments and update divided over the data-parallel ranks (ZeRO-1)");
}

void LrScheduleSection::fields(FieldVisitor& v) {
  v("lr_decay_style", lr_decay_style, "course of the learning rate after warm-up");
  const LrDecayStyle style = lr_decay_style;
  const bool wsd = style == LrDecayStyle::Wsd, step = style == LrDecayStyle::Step;
  const bool decays = wsd || style == LrDecayStyle::Cosine;
  v("lr_warmup_iters", lr_warmup_iters, "steps of linear warm-up", count_from(0));
  v("lr_decay_iters", lr_decay_iters, "step at which min_lr is reached; unset: the run's last",
    count_from(1).only(decays, "lr_decay_style is cosine or WSD"));
  v("lr_wsd_decay_iters", lr_wsd_decay_iters, "steps of the final decay; unset: a tenth of all",
    count_from(1).only(wsd, "lr_decay_style is WSD"));
  v("lr_wsd_decay_style", lr_wsd_decay_style, "course of the final decay",
    only(wsd, "lr_decay_style is WSD"));
  v("lr_step_iters", lr_step_iters, "steps at which the rate falls; unset: after 80 % and 90 % of the run",
    count_from(1).only(step, "lr_decay_style is step"));
  v("lr_step_factor", lr_step_factor, "factor at each of lr_step_iters",
    between(0, 1).only(step, "lr_decay_style is step"));
  v("min_lr", min_lr, "lowest learning rate after warm-up",
    at_least(0).only(decays || step, "lr_decay_style is cosine, WSD or step"));
}

std::int64_t LrScheduleSection::decay_iters(std::int64_t iterations) const {
  return lr_decay_iters.value_or(iterations);
}

std::int64_t LrScheduleSection::wsd_decay_iters(std::int64_t iterations) const {
  return lr_wsd_decay_iters.value_or((decay_iters(iterations) - 1) / 10 + 1);
}

std::vector<std::int64_t> LrScheduleSection::step_iters(std::int64_t iterations) const {
  if (lr_step_iters) return *lr_step_iters;
  return {(iterations * 8 + 9) / 10, (iterations * 9 + 9) / 10};
}

void LrScheduleSection::validate() const {
  if (!lr_step_iters) return;
  if (lr_step_iters->empty())
    throw InputError("lr_step_iters is empty: name a step, or choose lr_decay_style constant");
  for (std::size_t i = 1; i < lr_step_iters->size(); ++i)
    if ((*lr_step_iters)[i] <= (*lr_step_iters)[i - 1])
      throw InputError(concat("lr_step_iters has ", (*lr_step_iters)[i], " after ", (*lr_step_iters)[i - 1],
                              ": steps must increase"));
}

}  // namespace strata::optim
