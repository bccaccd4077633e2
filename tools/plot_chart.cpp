#include "tools/plot_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace strata::tools {
namespace {

constexpr std::size_t kPoints = 1000, kMarked = 40;  // of a line; lines of fewer than kMarked get marks
constexpr double kWidth = 600, kHeight = 300, kLeft = 58, kRight = 588, kTop = 10, kBottom = 258;
constexpr int kColours = 8;
constexpr double kLargest = 1e280;  // so that an axis and its margins stay finite

std::string fixed(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

// The interval that an axis shows, and where it has ticks. On a logarithmic axis all are logarithms.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // values, and where on the page they lie
  std::vector<double> ticks;
  bool log = false;

  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Multiples of 1, 2 or 5 times a power of ten, about `count` of them, at least `least` apart.
std::vector<double> round_ticks(double low, double high, int count, double least = 0) {
  const double rough = std::max((high - low) / count, least),
               power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5, 2, 1})
    if (m * power >= rough) step = m * power;
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    ticks.push_back(i * step);
  return ticks;
}

// Powers of ten, with 2 and 5 times them where there are few; round numbers within a power.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const double stride = std::max(1.0, std::ceil((high - low) / 12));
  for (double power = std::floor(low / stride) * stride; power <= high; power += stride)
    for (const double m : {1, 2, 5})
      if (const double v = power + std::log10(m); (m == 1 || high - low < 3) && v >= low && v <= high)
        ticks.push_back(v);
  if (ticks.size() > 2) return ticks;
  ticks.clear();
  for (const double v : round_ticks(std::pow(10, low), std::pow(10, high), 5))
    if (v > 0) ticks.push_back(std::log10(v));
  return ticks;
}

// Covers [low, high], with a margin of `room` of it on both sides; without one it counts steps or layers.
Axis make_axis(double low, double high, double from, double to, double room, bool log) {
  if (!(low <= high)) low = 0, high = 1;  // nothing to show
  const double width = high - low, least = std::max(1e-9 * std::abs(high), 1e-12);
  const double margin = width > least ? room * width : std::max(0.05 * std::abs(high), least);
  Axis axis{low - margin, high + margin, from, to, {}, log};
  axis.ticks = log ? log_ticks(axis.low, axis.high)
                   : round_ticks(axis.low, axis.high, room > 0 ? 5 : 7, room > 0 ? 0 : 1);
  return axis;
}

// NaN where the chart has a gap; what is larger than kLargest is drawn there.
double height_of(const Chart& chart, double y) {
  if (!std::isfinite(y) || (chart.log_y && y <= 0)) return NAN;
  y = std::clamp(y, -kLargest, kLargest);
  return chart.log_y ? std::log10(y) : y;
}

std::pair<Axis, Axis> axes(const Chart& chart) {
  double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
  for (const Line& line : chart.lines)
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      left = std::min(left, line.x[i]), right = std::max(right, line.x[i]);
      const double y = height_of(chart, line.y[i]);
      if (!std::isnan(y)) low = std::min(low, y), high = std::max(high, y);
    }
  return {make_axis(left, right, kLeft, kRight, 0, false),
          make_axis(low, high, kBottom, kTop, 0.04, chart.log_y)};
}

std::string grid(const Axis& x, const Axis& y, const std::string& x_label) {
  std::string svg;
  for (const double tick : y.ticks) {
    const std::string at = fixed(y.at(tick));
    svg += concat("<path class='grid' d='M", kLeft, " ", at, "H", kRight, "'/><text class='y' x='", kLeft - 6,
                  "' y='", at, "'>", short_number(y.log ? std::pow(10, tick) : tick), "</text>");
  }
  for (const double tick : x.ticks) {
    const std::string at = fixed(x.at(tick));
    svg += concat("<path class='tick' d='M", at, " ", kBottom, "v4'/><text x='", at, "' y='", kBottom + 18,
                  "'>", short_number(tick), "</text>");
  }
  return svg + concat("<path class='axis' d='M", kLeft, " ", kTop, "V", kBottom, "H", kRight, "'/><text x='",
                      (kLeft + kRight) / 2, "' y='", kHeight - 6, "'>", escaped(x_label), "</text>");
}

std::string draw_line(const Chart& chart, const Line& all, const Axis& x, const Axis& y) {
  const Line line = thinned(all, kPoints);
  const bool is_marked = line.x.size() < kMarked && !line.faint && !line.dashed;
  std::string path, marks;
  bool is_open = false;
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    const double h = height_of(chart, line.y[i]);
    if (!std::isnan(h)) {
      const std::string px = fixed(x.at(line.x[i])), py = fixed(y.at(h));
      path += concat(is_open ? "L" : "M", px, " ", py);
      if (is_marked) marks += concat("<circle cx='", px, "' cy='", py, "' r='2.6'/>");
    }
    is_open = !std::isnan(h);
  }
  const std::string style = concat("c", line.colour % kColours, line.faint ? " faint" : "",
                                   line.dashed || line.colour >= kColours ? " dashed" : "");
  std::string hint = line.name.empty() ? chart.title : line.name;
  hint += line.faint ? ", as logged" : line.dashed ? ", dashed" : "";
  if (!line.y.empty()) hint += concat(": ", short_number(line.y.back()), " at ", line.x.back());
  return concat("<g class='", style, "'><title>", escaped(hint), "</title><path d='", path, "'/>", marks,
                "</g>");
}

std::string legend(const Chart& chart) {
  std::string entries;
  for (const Line& line : chart.lines)
    if (!line.name.empty() && !line.faint && !line.dashed)
      entries += concat("<span class='c", line.colour % kColours, line.colour >= kColours ? " dashed" : "",
                        "'>", escaped(line.name), "</span>");
  return entries.empty() ? "" : "<div class=legend>" + entries + "</div>";
}

}  // namespace

std::string draw(const Chart& chart) {
  const auto [x, y] = axes(chart);
  std::string lines;
  for (const Line& line : chart.lines) lines += draw_line(chart, line, x, y);
  const std::string note = chart.note.empty() ? "" : concat(" <small>", escaped(chart.note), "</small>");
  return concat("<figure><figcaption>", escaped(chart.title), note, "</figcaption>", legend(chart),
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ", kWidth, " ", kHeight,
                "' role='img' aria-label='", escaped(chart.title), "'>", grid(x, y, chart.x_label), lines,
                "</svg></figure>\n");
}

Line thinned(const Line& line, std::size_t points) {
  const std::size_t n = line.x.size(), pieces = points / 2;
  if (n <= points) return line;
  Line thin{line.name, line.colour, {}, {}, line.faint, line.dashed};
  for (std::size_t p = 0; p < pieces; ++p) {
    const std::size_t begin = p * n / pieces, end = (p + 1) * n / pieces;
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(line.y[i])) continue;
      if (!std::isfinite(line.y[low]) || line.y[i] < line.y[low]) low = i;
      if (!std::isfinite(line.y[high]) || line.y[i] > line.y[high]) high = i;
    }
    for (const std::size_t i : {std::min(low, high), std::max(low, high)}) {
      thin.x.push_back(line.x[i]);
      thin.y.push_back(line.y[i]);
      if (low == high) break;
    }
  }
  return thin;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char* entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '\'' ? "&#39;" : nullptr;
    out += entity ? entity : std::string(1, c);
  }
  return out;
}

std::string short_number(double value) {
  double scaled = value;
  const char* unit = "";
  for (const auto& [size, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e4, "k"}})
    if (*unit == 0 && std::abs(value) >= size && std::abs(value) < 1e15)
      scaled = value / (size == 1e4 ? 1e3 : size), unit = name;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::abs(value) < 1e-15 ? 0.0 : scaled);
  std::string s = text;
  if (const std::size_t e = s.find("e-0"); e != std::string::npos) s.erase(e + 2, 1);
  return s + unit;
}

}  // namespace strata::tools
