// The page that `strata plot` draws: curves of one run or several, profiles over depth, and a table.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "train/metrics_file.h"

namespace strata::tools {

// What every page begins with: it tells a page of this program from other files.
constexpr std::string_view kPageBeginning =
    "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n<meta name=viewport "
    "content='width=device-width'>\n<title>strata: ";

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
