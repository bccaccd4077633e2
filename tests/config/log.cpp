// Messages go to stderr once main has asked for them, and nowhere before.
#include "base/log.h"

#include <gtest/gtest.h>

#include <functional>

namespace strata {
namespace {

std::string logged(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, SilentUntilSetUpThenToStderr) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(logged([] { log::error("early"); }), "");
  const std::string text = logged([] {
    log::setup(log::Level::Warn, "[50%v r1]");
    log::info("dropped");
    log::warn("{} %v");
  });
  EXPECT_EQ(text.substr(8), " warning: [50%v r1] {} %v\n");  // after the time of day
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace strata
