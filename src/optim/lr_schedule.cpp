#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>

namespace strata::optim {
namespace {

constexpr double kPi = 3.14159265358979323846;

// 1 at the start of the decay, 0 at its end.
double wsd_factor(WsdDecayStyle style, double progress) {
  switch (style) {
    case WsdDecayStyle::Linear:
      return 1 - progress;
    case WsdDecayStyle::Cosine:
      return 0.5 * (1 + std::cos(kPi * progress));
    case WsdDecayStyle::MinusSqrt:
      return 1 - std::sqrt(progress);
    case WsdDecayStyle::Exponential:
      return 2 * std::pow(0.5, progress) - 1;
  }
  return 1;
}

double cosine(const LrScheduleSection& s, double peak, std::int64_t step, std::int64_t iterations) {
  const double length = double(std::max<std::int64_t>(1, s.decay_iters(iterations) - s.lr_warmup_iters));
  const double progress = std::min(1.0, double(step - s.lr_warmup_iters) / length);
  return s.min_lr + (peak - s.min_lr) * 0.5 * (1 + std::cos(kPi * progress));
}

double wsd(const LrScheduleSection& s, double peak, std::int64_t step, std::int64_t iterations) {
  const std::int64_t end = s.decay_iters(iterations), begin = end - s.wsd_decay_iters(iterations);
  if (step <= begin) return peak;
  const double progress =
      std::min(1.0, double(step - begin) / double(std::max<std::int64_t>(1, end - begin)));
  return s.min_lr + (peak - s.min_lr) * wsd_factor(s.lr_wsd_decay_style, progress);
}

double stepped(const LrScheduleSection& s, double peak, std::int64_t step, std::int64_t iterations) {
  double lr = peak;
  for (const std::int64_t at : s.step_iters(iterations))
    if (step > at) lr *= s.lr_step_factor;
  return std::max(lr, s.min_lr);
}

}  // namespace

double learning_rate(const LrScheduleSection& s, double peak, std::int64_t step, std::int64_t iterations) {
  if (step <= s.lr_warmup_iters) return peak * double(step) / double(s.lr_warmup_iters);
  switch (s.lr_decay_style) {
    case LrDecayStyle::Constant:
      return peak;
    case LrDecayStyle::Cosine:
      return cosine(s, peak, step, iterations);
    case LrDecayStyle::Wsd:
      return wsd(s, peak, step, iterations);
    case LrDecayStyle::Step:
      return stepped(s, peak, step, iterations);
  }
  return peak;
}

}  // namespace strata::optim
