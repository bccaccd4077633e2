// Metrics for programs: one JSON object a line, in Megatron's vocabulary.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace strata::train {

// Named numbers, in the order in which they are written. docs/runs.md has the names.
using Metrics = std::vector<std::pair<std::string, double>>;

class MetricsSink {
 public:
  // Goes on behind the lines of an earlier part of the run, up to iteration `last_step`; what comes after
  // them was of steps that are done again, and is dropped; of the last step, too, lines with a name that
  // begins with `redone`, if that is not empty. InputError if the file cannot be written.
  explicit MetricsSink(const std::string& path, std::int64_t last_step = 0, const std::string& redone = {});
  // Numbers that are not finite are written as strings ("nan", "inf"): JSON has none. Flushed at once. Error
  // if the line cannot be written.
  void write(const Metrics& values);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace strata::train
