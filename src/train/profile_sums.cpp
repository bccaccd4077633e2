#include "train/profile_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace strata::train {
namespace {

// What of a span lies in steps.
double seconds_in(const std::vector<StepSpan>& steps, Span span) {
  std::int64_t inside = 0;
  for (const StepSpan& s : steps)
    inside += Span{std::max(s.span.begin, span.begin), std::min(s.span.end, span.end)}.length();
  return 1e-9 * double(inside);
}

double seconds_in(const std::vector<StepSpan>& steps, std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  double seconds = 0;
  std::int64_t covered = 0;
  for (Span s : spans) {
    s.begin = std::max(s.begin, covered);
    covered = std::max(covered, s.end);
    seconds += seconds_in(steps, s);
  }
  return seconds;
}

// One kind, or all.
CommSums sums_of(const Timeline& t, std::optional<CommKind> kind) {
  CommSums sums;
  std::vector<Span> under_way;
  const auto counts = [&](const CommSpan& c) {
    return (!kind || c.kind == *kind) && t.begins_in_step(c.span);
  };
  for (const CommSpan& c : t.communication()) {
    if (!counts(c)) continue;
    ++sums.operations;
    sums.sent += double(c.sent);
    sums.received += double(c.received);
    under_way.push_back({c.ready, c.span.end});
  }
  for (const WaitSpan& w : t.waits()) {
    const CommSpan& c = t.communication()[w.of];
    if (!counts(c)) continue;
    const std::int64_t ready = std::clamp(c.ready, w.span.begin, w.span.end);
    sums.bubble += seconds_in(t.steps(), Span{w.span.begin, ready});
    sums.exposed += seconds_in(t.steps(), Span{ready, w.span.end});
    under_way.push_back({ready, w.span.end});  // the data are there for who waits once it has woken
  }
  sums.under_way = seconds_in(t.steps(), std::move(under_way));
  return sums;
}

}  // namespace

std::optional<double> CommSums::hidden() const {
  if (under_way == 0) return {};
  return std::clamp(1 - exposed / under_way, 0.0, 1.0);
}

double ProfileSums::computed() const {
  double seconds = 0;
  for (const double s : compute) seconds += s;
  return seconds;
}

double ProfileSums::idle() const { return std::max(0.0, step - computed() - all.exposed - all.bubble); }

std::array<double, 4> ProfileSums::percent() const {
  std::array<double, 4> tenths{};
  if (step == 0) return tenths;
  const double parts[] = {computed(), all.exposed, all.bubble};
  for (int i = 0; i < 3; ++i) tenths[i] = std::round(1000 * parts[i] / step);
  tenths[3] = 1000 - tenths[0] - tenths[1] - tenths[2];
  if (tenths[3] < 0) *std::max_element(tenths.begin(), tenths.end()) += std::exchange(tenths[3], 0);
  for (double& t : tenths) t /= 10;
  return tenths;
}

ProfileSums sums_of(const Timeline& timeline) {
  ProfileSums sums;
  sums.watched = int(timeline.steps().size());
  for (const StepSpan& s : timeline.steps()) sums.step += 1e-9 * double(s.span.length());
  for (const JobSpan& j : timeline.jobs()) sums.compute[int(j.phase)] += seconds_in(timeline.steps(), j.span);
  sums.all = sums_of(timeline, std::nullopt);
  for (int k = 0; k < kCommKinds; ++k) sums.kinds[k] = sums_of(timeline, CommKind(k));
  return sums;
}

}  // namespace strata::train
