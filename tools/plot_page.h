// The page that `strata plot` draws: curves of one run or several, profiles over depth, and a table.
#pragma once
#include <string>
#include <vector>

#include "train/metrics_file.h"

namespace strata::tools {

struct PlottedRun {
  std::string name;  // tells it from the others
  train::MetricsFile metrics;
};

// One HTML file without anything from outside and without scripts. A metric that only some runs have is drawn
// for those.
std::string plot_page(const std::vector<PlottedRun>& runs);

// The mean of the values around each, a fiftieth of the curve in all; as many on both sides at its beginning,
// where curves fall, and what is there at its end. Values that are not finite do not count.
std::vector<double> smoothed(const std::vector<double>& values);

}  // namespace strata::tools
