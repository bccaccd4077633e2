// Metrics are lines of strict JSON whatever the numbers.
#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace strata::test {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Metrics, OneObjectALineAtOnceInTheOrderGiven) {
  const std::string path = testing::TempDir() + "strata_metrics.jsonl";
  {
    train::MetricsSink sink(path);
    sink.write({{"iteration", 3}, {"lm loss", 0.1}, {"tokens", 9007199254740992.0}, {"grad norm", 1e-300}});
    EXPECT_EQ(content(path),
              "{\"iteration\":3,\"lm loss\":0.1,\"tokens\":9.007199254740992e+15,\"grad norm\":1e-300}\n");
    sink.write({{"a", NAN}, {"b", INFINITY}, {"c", -INFINITY}});
  }
  EXPECT_EQ(content(path).substr(content(path).find('\n') + 1),
            "{\"a\":\"nan\",\"b\":\"inf\",\"c\":\"-inf\"}\n");
  train::MetricsSink again(path);
  EXPECT_EQ(content(path), "") << "a sink starts anew";
  std::filesystem::remove(path);
}

TEST(Metrics, GoesOnBehindTheLinesThatStillHold) {
  const std::string path = ::testing::TempDir() + "strata_metrics_resume.jsonl";
  std::ofstream(path)
      << "{\"iteration\":1,\"a\":5}\nnonsense\n{\"iteration\":2}\n{\"iteration\":3}\n{\"itera";
  train::MetricsSink(path, 2).write({{"iteration", 3}});
  EXPECT_EQ(content(path), "{\"iteration\":1,\"a\":5}\n{\"iteration\":2}\n{\"iteration\":3}\n");
  std::ofstream(path) << "{\"iteration\":1,\"loss x\":5}\n{\"iteration\":2,\"a\":1}\n"
                         "{\"iteration\":2,\"loss x\":6}\n{\"iteration\":3}\n";
  train::MetricsSink(path, 2, "loss ");
  EXPECT_EQ(content(path), "{\"iteration\":1,\"loss x\":5}\n{\"iteration\":2,\"a\":1}\n");
  std::remove(path.c_str());
}

TEST(Metrics, FilesThatCannotBeWrittenAreErrors) {
  EXPECT_THROW(train::MetricsSink("/none/metrics.jsonl"), InputError);
  train::MetricsSink full("/dev/full");
  EXPECT_THROW(full.write({{"a", 1}}), Error);
}

}  // namespace
}  // namespace strata::test
