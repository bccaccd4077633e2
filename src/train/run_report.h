// What a run tells: lines for people, metrics for programs. Of several ranks the first one has it.
#pragma once
#include <optional>
#include <string>

#include "data/dataset.h"
#include "train/evaluate.h"
#include "train/event_file.h"
#include "train/memory_outlook.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/throughput.h"

namespace strata::train {

class RunReport {
 public:
  // Goes on from there: later lines of the metrics are cut off. Refers to `trainer`.
  RunReport(Trainer& trainer, const RunFolder& folder, const Progress& from);

  // What is about to run.
  void introduce(const data::TrainingData& data, const MemoryOutlook& memory) const;
  // A step that took so many seconds; `left` of them are expected until the end. more: further metrics.
  void step(const StepResult& r, const Progress& progress, const Metrics& more, double seconds, double left);
  void evaluation(std::int64_t step, const std::string& set, const Evaluation& e);
  // The run ends behind this step, saved in `folder`: stopped by `reason`, or done.
  void conclude(const Progress& progress, bool nothing_was_left, const std::string& reason,
                const std::string& folder);

 private:
  void write(std::int64_t step, const Metrics& values);

  Trainer& trainer_;
  const RunConfig& config_;
  Throughput throughput_;
  MetricsSink metrics_;
  std::optional<EventFile> events_;  // TensorBoard's
};

}  // namespace strata::train
