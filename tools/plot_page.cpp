#include "tools/plot_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "base/error.h"
#include "tools/plot_chart.h"

namespace strata::tools {
namespace {

using train::Curve;

constexpr std::size_t kFewSteps = 20;
constexpr const char* kStep = "step";

constexpr const char* kStyle = R"(
:root{--ink:#1f2328;--pale:#656d76;--line:#d8dee4;--page:#fff;--box:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--pale:#8d96a0;--line:#30363d;--page:#0d1117;--box:#161b22}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:84rem;margin:2rem auto;padding:0 1.5rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
p,small{color:var(--pale)}p{margin:.3rem 0 1rem}small{font-weight:400;font-size:.8rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(28rem,100%),1fr));gap:1.2rem}
figure{margin:0;padding:.8rem .9rem .4rem;background:var(--box);border-radius:8px;break-inside:avoid}
figcaption{font-weight:600}svg{width:100%;height:auto;display:block}
svg path{fill:none;stroke-linejoin:round}svg g path{stroke:var(--c);stroke-width:1.8}svg circle{fill:var(--c)}
svg text{font-size:12px;fill:var(--pale);text-anchor:middle}svg text.y{text-anchor:end;dominant-baseline:middle}
.grid{stroke:var(--line)}.axis,.tick{stroke:var(--pale)}svg .faint path{opacity:.3;stroke-width:1}svg .dashed path{stroke-dasharray:5 4}
.legend{display:flex;flex-wrap:wrap;gap:0 1rem;font-size:.85rem}.legend span::before{content:'';display:inline-block;width:1.1rem;border-top:3px solid var(--c);vertical-align:middle;margin-right:.35rem}
.legend .dashed::before{border-top-style:dashed}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.18rem .8rem;border-bottom:1px solid var(--line);text-align:right}
td:first-child,th:first-child{text-align:left;padding-left:0}th{font-weight:600}.scroll{overflow-x:auto}
.c0{--c:#0072b2}.c1{--c:#d55e00}.c2{--c:#009e73}.c3{--c:#cc79a7}.c4{--c:#e69f00}.c5{--c:#56b4e9}.c6{--c:#8c6d31}.c7{--c:#7f7f7f}
)";

enum class Look { Plain, Smooth, Log };  // Log: smoothed as well

struct Page {
  const std::vector<PlottedRun>& runs;
  std::string html = {};

  std::string label(const PlottedRun& run) const { return runs.size() > 1 ? run.name : ""; }
};

const Curve* find(const PlottedRun& run, const std::string& metric) {
  const auto found = run.metrics.curves.find(metric);
  return found == run.metrics.curves.end() ? nullptr : &found->second;
}

// The metrics of all runs that begin so, each once, without that beginning.
std::set<std::string> with_prefix(const std::vector<PlottedRun>& runs, const std::string& prefix) {
  std::set<std::string> rest;
  for (const PlottedRun& run : runs)
    for (const auto& [name, curve] : run.metrics.curves)
      if (name.starts_with(prefix)) rest.insert(name.substr(prefix.size()));
  return rest;
}

Line line_of(const std::string& name, std::size_t colour, const Curve& curve) {
  return {name, int(colour), {curve.steps.begin(), curve.steps.end()}, curve.values};
}

bool is_silent(const Chart& chart) {
  return std::all_of(chart.lines.begin(), chart.lines.end(), [](const Line& line) {
    return std::all_of(line.y.begin(), line.y.end(), [](double y) { return y == 0; });
  });
}

// One metric over the steps, a line a run. `unless_zero`: left out where it is zero throughout.
void add_curves(Page& page, const std::string& metric, const std::string& title, Look look,
                bool unless_zero = false) {
  Chart chart{title, "", kStep, look == Look::Log, {}};
  bool is_smoothed = false;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    const Curve* curve = find(page.runs[i], metric);
    if (!curve) continue;
    Line line = line_of(page.label(page.runs[i]), i, *curve);
    if (look != Look::Plain && line.x.size() >= kFewSteps) {
      Line raw = line;
      raw.faint = true;
      chart.lines.push_back(raw);
      line.y = smoothed(line.y);
      is_smoothed = true;
    }
    chart.lines.push_back(line);
  }
  if (chart.lines.empty() || (unless_zero && is_silent(chart))) return;
  if (is_smoothed) chart.note = "smoothed over 2 % of the run, 3 steps at least; faint: as logged";
  page.html += draw(chart);
}

// Over depth: the metrics PREFIX1, PREFIX2, .. of each run as one line, at the last step and, dashed, the
// first.
void add_profile(Page& page, const std::string& prefix, const std::string& title,
                 const std::string& x_label) {
  std::set<int> places;
  for (const std::string& rest : with_prefix(page.runs, prefix))
    if (!rest.empty() && rest.size() < 7 && rest.find_first_not_of("0123456789") == std::string::npos)
      places.insert(std::stoi(rest));
  if (places.size() < 2) return;
  Chart chart{title, "last step; dashed: first", x_label, false, {}};
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    Line last{page.label(page.runs[i]), int(i), {}, {}}, first = last;
    first.dashed = true;
    for (const int place : places)
      if (const Curve* curve = find(page.runs[i], concat(prefix, place))) {
        first.x.push_back(place), first.y.push_back(curve->values.front());
        last.x.push_back(place), last.y.push_back(curve->values.back());
      }
    if (!last.x.empty()) chart.lines.insert(chart.lines.end(), {first, last});
  }
  page.html += draw(chart);
}

// A gate's streams: a line each, a chart a run.
void add_gates(Page& page) {
  constexpr const char* kPrefix = "gate mean stream ";
  for (const PlottedRun& run : page.runs) {
    Chart chart{
        "gate, mean over targets" + (page.runs.size() > 1 ? ": " + run.name : ""), "", kStep, false, {}};
    for (int stream = 1; const Curve* curve = find(run, concat(kPrefix, stream)); ++stream)
      chart.lines.push_back(line_of(concat("stream ", stream), stream - 1, *curve));
    if (!chart.lines.empty()) page.html += draw(chart);
  }
}

// A section's heading, if anything comes under it.
template <class Charts>
void section(Page& page, const char* title, const Charts& charts) {
  const std::string before = std::exchange(page.html, "");
  charts();
  if (!page.html.empty())
    page.html = concat("<h2>", title, "</h2>\n<div class=charts>\n", page.html, "</div>\n");
  page.html = before + page.html;
}

void add_sections(Page& page) {
  section(page, "Loss", [&] {
    add_curves(page, "lm loss", "training loss (nats per token)", Look::Smooth);
    for (const std::string& set : with_prefix(page.runs, "lm loss validation "))
      if (!set.ends_with(" PPL"))
        add_curves(page, "lm loss validation " + set, "validation loss, " + set + " (nats per token)",
                   Look::Plain);
    add_curves(page, "mtp loss", "multi-token prediction loss", Look::Smooth, true);
    add_curves(page, "load_balancing_loss", "balance losses", Look::Smooth, true);
  });
  section(page, "Optimisation and speed", [&] {
    add_curves(page, "grad norm", "gradient norm before clipping", Look::Log);
    add_curves(page, "learning rate", "learning rate", Look::Plain);
    add_curves(page, "tokens per second", "tokens per second", Look::Smooth);
  });
  section(page, "Experts", [&] {
    add_curves(page, "expert load max/mean", "load of the fullest expert / mean load, worst layer",
               Look::Plain);
    add_profile(page, "expert load max/mean layer ", "the same by layer", "layer");
    add_curves(page, "expert load entropy", "entropy of the loads, worst layer (1: even)", Look::Plain);
    add_curves(page, "dead experts", "experts without a token, all layers", Look::Plain, true);
    add_curves(page, "router bias range", "largest less smallest router bias, widest layer", Look::Plain);
  });
  section(page, "Attention over depth", [&] {
    add_curves(page, "depth attention entropy", "entropy of the weights over sources (1: even)", Look::Plain);
    add_profile(page, "depth attention entropy target ", "the same by target", "sub-layer that retrieves");
    add_gates(page);
  });
  section(page, "Outputs", [&] {
    add_profile(page, "output norm sublayer ", "RMS of a sub-layer's output",
                "sub-layer (odd: attention, even: feed-forward)");
  });
}

std::string table_number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, v == std::floor(v) && std::abs(v) < 1e15 ? "%.0f" : "%.5g", v);
  return text;
}

// The last value of the metrics that stand for a run as a whole.
std::string last_values(const std::vector<PlottedRun>& runs) {
  std::vector<std::string> metrics{"tokens", "lm loss"};
  for (const char* prefix : {"lm loss validation ", "bits per byte validation "})
    for (const std::string& set : with_prefix(runs, prefix)) metrics.push_back(prefix + set);
  metrics.insert(metrics.end(), {"grad norm", "learning rate", "tokens per second", "skipped iterations",
                                 "expert load max/mean", "expert load entropy", "dead experts",
                                 "depth attention entropy", "mem-max-allocated-bytes"});
  std::string head = "<tr><th>last value", rows;
  for (const PlottedRun& run : runs) head += "<th>" + escaped(run.name);
  for (const std::string& metric : metrics) {
    std::string row;
    bool is_known = false;
    for (const PlottedRun& run : runs) {
      const Curve* curve = find(run, metric);
      row += concat("<td>", curve ? table_number(curve->values.back()) : "");
      is_known |= curve != nullptr;
    }
    if (is_known) rows += concat("<tr><td>", escaped(metric), row, "\n");
  }
  return concat("<div class=scroll><table>", head, "\n", rows, "</table></div>\n");
}

std::string listed(const std::vector<PlottedRun>& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += concat(i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ", runs[i].name);
  return text;
}

std::int64_t last_step(const PlottedRun& run) {
  std::int64_t step = 0;
  for (const auto& [name, curve] : run.metrics.curves) step = std::max(step, curve.steps.back());
  return step;
}

}  // namespace

std::vector<double> smoothed(const std::vector<double>& values) {
  const std::size_t n = values.size(), reach = std::max<std::size_t>(1, n / 100);
  std::vector<double> sums{0}, counts{0}, means;  // of the values before
  for (const double v : values) {
    sums.push_back(sums.back() + (std::isfinite(v) ? v : 0));
    counts.push_back(counts.back() + (std::isfinite(v) ? 1 : 0));
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t r = std::min(reach, i), end = std::min(i + r + 1, n);
    means.push_back((sums[end] - sums[i - r]) / (counts[end] - counts[i - r]));
  }
  return means;
}

std::string plot_page(const std::vector<PlottedRun>& runs) {
  Page page{runs};
  add_sections(page);
  std::string sources;
  for (const PlottedRun& run : runs)
    sources +=
        concat(sources.empty() ? "" : "; ", run.name, ": ", run.metrics.path, ", to step ", last_step(run));
  const std::string title = escaped(listed(runs));
  return concat(kPageBeginning, title, "</title>\n<style>", kStyle, "</style></head>\n<body><h1>", title,
                "</h1>\n<p>", escaped(sources), "</p>\n", last_values(runs), page.html, "</body></html>\n");
}

}  // namespace strata::tools
