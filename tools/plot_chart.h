// One chart of the page that `strata plot` draws: lines over axes as inline SVG, with a title and a legend.
#pragma once
#include <string>
#include <vector>

namespace strata::tools {

struct Line {
  std::string name;          // for the legend, unless faint or dashed; empty: the chart's title serves
  int colour = 0;            // 0, 1, ..; they repeat after eight, dashed
  std::vector<double> x, y;  // x ascends; a y that is not finite is a gap
  bool faint = false, dashed = false;
};

struct Chart {
  std::string title, note, x_label;
  bool log_y = false;  // values that are not above 0 are gaps
  std::vector<Line> lines;
};

// An HTML <figure>. A line is drawn with at most about 1000 points, none of its extremes lost.
std::string draw(const Chart& chart);

// `line` with the smallest and the largest value of each of `points`/2 pieces.
Line thinned(const Line& line, std::size_t points);
// Text for HTML.
std::string escaped(const std::string& text);
// A number in a few characters: "0.0003", "1.5M", "5e-7".
std::string short_number(double value);

}  // namespace strata::tools
