// Where a run is: all it must know, besides weights and moments, to go on as if it had never stopped.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace strata::train {

struct Progress {
  std::int64_t step = 0;     // steps done, the skipped ones among them
  std::int64_t updates = 0;  // steps that changed the weights: the optimizer's count
  std::int64_t samples = 0;  // taken from the data's order
  std::int64_t tokens = 0;   // seen by the model
  std::int64_t skipped = 0, skipped_in_a_row = 0;
  bool evaluation_due = false;  // a stop cut this step's evaluation short
  std::string data;             // fingerprint of the training data
  std::vector<double> losses;   // the spike detector's window
  bool operator==(const Progress&) const = default;
};

// One JSON object; doubles read back to the same bits.
std::string progress_json(const Progress& progress);
// `source` names the text in messages. InputError on anything missing, unknown or out of range.
Progress parse_progress(const std::string& text, const std::string& source);

}  // namespace strata::train
