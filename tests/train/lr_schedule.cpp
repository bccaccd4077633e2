// The learning rate of every step: warm-up, each style, its ends, and that it never jumps up.
#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strata::test {
namespace {

using optim::learning_rate;
using optim::LrDecayStyle;
using optim::LrScheduleSection;
using optim::WsdDecayStyle;

constexpr double kPeak = 0.4, kMin = 0.04;
constexpr std::int64_t kSteps = 100;

LrScheduleSection schedule(LrDecayStyle style, std::int64_t warmup = 10) {
  LrScheduleSection s;
  s.lr_decay_style = style;
  s.lr_warmup_iters = warmup;
  s.min_lr = kMin;
  return s;
}

double rate(const LrScheduleSection& s, std::int64_t step) { return learning_rate(s, kPeak, step, kSteps); }

constexpr LrDecayStyle kStyles[] = {LrDecayStyle::Constant, LrDecayStyle::Cosine, LrDecayStyle::Wsd,
                                    LrDecayStyle::Step};

TEST(LrSchedule, WarmsUpLinearlyWhateverFollows) {
  for (const LrDecayStyle style : kStyles)
    for (std::int64_t step = 1; step <= 10; ++step)
      EXPECT_DOUBLE_EQ(rate(schedule(style), step), kPeak * double(step) / 10)
          << name_of(style) << " " << step;
}

TEST(LrSchedule, WithoutWarmUpTheFirstStepIsNotBelowPeakByMoreThanTheDecay) {
  EXPECT_EQ(rate(schedule(LrDecayStyle::Constant, 0), 1), kPeak);
  EXPECT_EQ(rate(schedule(LrDecayStyle::Wsd, 0), 1), kPeak);
  EXPECT_EQ(rate(schedule(LrDecayStyle::Step, 0), 1), kPeak);
  EXPECT_NEAR(rate(schedule(LrDecayStyle::Cosine, 0), 1), kPeak, 1e-3 * kPeak);
}

TEST(LrSchedule, NeverRisesAfterWarmUp) {
  for (const LrDecayStyle style : kStyles)
    for (const WsdDecayStyle wsd : {WsdDecayStyle::Exponential, WsdDecayStyle::Linear, WsdDecayStyle::Cosine,
                                    WsdDecayStyle::MinusSqrt}) {
      LrScheduleSection s = schedule(style);
      s.lr_wsd_decay_style = wsd;
      s.lr_wsd_decay_iters = 30;
      for (std::int64_t step = 11; step <= kSteps + 20; ++step) {
        EXPECT_LE(rate(s, step), rate(s, step - 1)) << name_of(style) << " " << name_of(wsd) << " " << step;
        EXPECT_GE(rate(s, step), kMin) << name_of(style) << " " << name_of(wsd) << " " << step;
      }
    }
}

TEST(LrSchedule, ConstantStays) {
  for (const std::int64_t step : {11, 50, 100, 1000000})
    EXPECT_EQ(rate(schedule(LrDecayStyle::Constant), step), kPeak);
}

TEST(LrSchedule, CosineEndsAtMinimumAndStaysThere) {
  LrScheduleSection s = schedule(LrDecayStyle::Cosine);
  EXPECT_DOUBLE_EQ(rate(s, 55), (kPeak + kMin) / 2);
  EXPECT_DOUBLE_EQ(rate(s, 25), kMin + (kPeak - kMin) * 0.5 * (1 + std::cos(M_PI / 6)));
  EXPECT_DOUBLE_EQ(rate(s, 100), kMin);
  EXPECT_DOUBLE_EQ(rate(s, 150), kMin);
  s.lr_decay_iters = 60;
  EXPECT_DOUBLE_EQ(rate(s, 35), (kPeak + kMin) / 2);
  EXPECT_DOUBLE_EQ(rate(s, 60), kMin);
}

TEST(LrSchedule, WsdHoldsThenDecaysInEachStyle) {
  const auto at = [](WsdDecayStyle style, std::int64_t step) {
    LrScheduleSection s = schedule(LrDecayStyle::Wsd);
    s.lr_wsd_decay_style = style;
    s.lr_wsd_decay_iters = 40;
    return (rate(s, step) - kMin) / (kPeak - kMin);
  };
  for (const WsdDecayStyle style :
       {WsdDecayStyle::Exponential, WsdDecayStyle::Linear, WsdDecayStyle::Cosine, WsdDecayStyle::MinusSqrt}) {
    EXPECT_DOUBLE_EQ(at(style, 11), 1) << name_of(style);
    EXPECT_DOUBLE_EQ(at(style, 60), 1) << name_of(style);
    EXPECT_NEAR(at(style, 100), 0, 1e-15) << name_of(style);
    EXPECT_NEAR(at(style, 120), 0, 1e-15) << name_of(style);
  }
  EXPECT_NEAR(at(WsdDecayStyle::Linear, 70), 0.75, 1e-12);
  EXPECT_NEAR(at(WsdDecayStyle::Cosine, 70), 0.5 * (1 + std::cos(M_PI / 4)), 1e-12);
  EXPECT_NEAR(at(WsdDecayStyle::MinusSqrt, 70), 0.5, 1e-12);
  EXPECT_NEAR(at(WsdDecayStyle::Exponential, 80), 2 * std::sqrt(0.5) - 1, 1e-12);
}

TEST(LrSchedule, WsdDecaysOverTheLastTenthByDefault) {
  const LrScheduleSection s = schedule(LrDecayStyle::Wsd);
  EXPECT_EQ(rate(s, 90), kPeak);
  EXPECT_LT(rate(s, 91), kPeak);
}

TEST(LrSchedule, StepFallsAfterEachNamedStepAndStopsAtMinimum) {
  LrScheduleSection s = schedule(LrDecayStyle::Step);
  s.lr_step_factor = 0.25;
  EXPECT_DOUBLE_EQ(rate(s, 80), kPeak);
  EXPECT_DOUBLE_EQ(rate(s, 81), kPeak / 4);
  EXPECT_DOUBLE_EQ(rate(s, 90), kPeak / 4);
  EXPECT_DOUBLE_EQ(rate(s, 91), kMin) << "a sixteenth of the peak would be below min_lr";
  s.lr_step_iters = {20, 30};
  EXPECT_DOUBLE_EQ(rate(s, 20), kPeak);
  EXPECT_DOUBLE_EQ(rate(s, 21), kPeak / 4);
  EXPECT_DOUBLE_EQ(rate(s, 31), kMin);
}

TEST(LrSchedule, ScalesWithThePeak) {
  for (const LrDecayStyle style : kStyles) {
    LrScheduleSection s = schedule(style);
    s.min_lr = 0;
    for (std::int64_t step = 1; step <= kSteps; ++step)
      EXPECT_DOUBLE_EQ(learning_rate(s, 2, step, kSteps), 2 * learning_rate(s, 1, step, kSteps))
          << name_of(style);
  }
}

}  // namespace
}  // namespace strata::test
