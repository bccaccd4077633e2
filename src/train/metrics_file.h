// A run's metrics.jsonl, read back as curves.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace strata::train {

// Steps ascend. Values may be NaN or infinite.
struct Curve {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
};

struct MetricsFile {
  std::string path;
  std::map<std::string, Curve> curves;  // by metric
};

// `run` is a run's folder, whose config.json names the file (else metrics.jsonl), or such a file. A last line
// that is not ended yet, of a run that goes on, is left out; of a step that is there again, the later value
// counts. InputError names file and line of anything else that is not as MetricsSink writes it, and a file
// without a metric.
MetricsFile read_metrics(const std::string& run);

}  // namespace strata::train
