// The words of a run on the screen.
#pragma once
#include <cstdio>
#include <string>

#include "data/dataset.h"
#include "train/memory_outlook.h"
#include "train/trainer.h"

namespace strata::train {

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, parts...);
  return text;
}

std::string duration(double seconds);  // "1m53s", "2h07m"
std::string megabytes(std::int64_t bytes);

// What is about to run: the run, the model, the data, the ranks, their memory.
std::vector<std::string> introduction(const RunConfig& config, Trainer& trainer,
                                      const data::TrainingData& data, const MemoryOutlook& memory);
// "step 3/120  lm loss 5.4321  ..."; `share` of the machine's peak, `left` in seconds.
std::string progress_line(const StepResult& r, std::int64_t steps, double tokens_per_second,
                          std::optional<double> share, double left);
// Peaks by purpose, on this rank.
std::string memory_line(device::Device& device, const comm::Mesh& mesh);

}  // namespace strata::train
