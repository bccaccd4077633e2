// Metrics for programs: one JSON object a line, in Megatron's vocabulary.
#pragma once
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace strata::train {

class MetricsSink {
 public:
  // Starts the file anew. InputError if it cannot be written.
  explicit MetricsSink(const std::string& path);
  // Numbers that are not finite are written as strings ("nan", "inf"): JSON has none. Flushed at once. Error
  // if the line cannot be written.
  void write(const std::vector<std::pair<std::string, double>>& values);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace strata::train
