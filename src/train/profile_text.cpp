#include "train/profile_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"
#include "train/run_text.h"

namespace strata::train {
namespace {

enum Thread { kCompute = 1, kActions = 2, kCommunication = 3 };

using Member = std::pair<std::string, std::string>;  // key, value as JSON
using Members = std::vector<Member>;

std::string json(const Members& members) {
  std::string text;
  for (const auto& [key, value] : members)
    text += concat(text.empty() ? "{" : ", ", json_quote(key), ": ", value);
  return text.empty() ? "{}" : text + "}";
}

std::string json(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += concat(text.empty() ? "" : ", ", n);
  return "[" + text + "]";
}

std::string json(std::optional<double> number) { return number ? json_number(*number) : "null"; }

// The events of one rank.
class Events {
 public:
  Events(int rank, std::int64_t zero) : rank_(rank), zero_(zero) {}

  void name(const char* what, const std::string& name, int thread = 0) {
    add({{"name", json_quote(what)},
         {"ph", "\"M\""},
         {"pid", concat(rank_)},
         {"tid", concat(thread)},
         {"args", json({{"name", json_quote(name)}})}});
  }
  void complete(Thread thread, const char* category, const std::string& name, Span span,
                const Members& args) {
    add({{"name", json_quote(name)},
         {"cat", json_quote(category)},
         {"ph", "\"X\""},
         {"pid", concat(rank_)},
         {"tid", concat(int(thread))},
         {"ts", time(span.begin)},
         {"dur", microseconds(span.length())},
         {"args", json(args)}});
  }
  void asynchronous(Thread thread, const char* category, const std::string& name, Span span,
                    const Members& args) {
    const std::string id = json_quote(concat(rank_, ".", ++operations_));
    for (const bool begins : {true, false})
      add({{"name", json_quote(name)},
           {"cat", json_quote(category)},
           {"ph", begins ? "\"b\"" : "\"e\""},
           {"id", id},
           {"pid", concat(rank_)},
           {"tid", concat(int(thread))},
           {"ts", time(begins ? span.begin : span.end)},
           {"args", begins ? json(args) : "{}"}});
  }
  std::string time(std::int64_t at) const { return microseconds(at - zero_); }
  std::string text() && { return std::move(text_); }

 private:
  static std::string microseconds(std::int64_t ns) { return format("%.3f", 1e-3 * double(ns)); }
  void add(const Members& members) { text_ += (text_.empty() ? "" : ",\n") + json(members); }

  int rank_;
  std::int64_t zero_, operations_ = 0;
  std::string text_;
};

std::string title(const CommSpan& c) { return c.what.empty() ? c.operation : c.operation + " " + c.what; }

Members sums_members(const CommSums& s) {
  return {{"operations", concat(std::int64_t(s.operations))},
          {"bytes sent", concat(std::int64_t(s.sent))},
          {"bytes received", concat(std::int64_t(s.received))},
          {"seconds under way", json_number(s.under_way)},
          {"seconds exposed", json_number(s.exposed)},
          {"seconds of bubble", json_number(s.bubble)},
          {"hidden", json(s.hidden())}};
}

std::string rank_json(const RankProfile& r) {
  constexpr const char* kParts[] = {"compute", "exposed communication", "bubble", "idle"};
  const ProfileSums& s = r.sums;
  const double seconds[] = {s.computed(), s.all.exposed, s.all.bubble, s.idle()};
  Members parts{{"step", json_number(s.step)}}, percent, phases, kinds;
  for (int i = 0; i < 4; ++i) {
    parts.emplace_back(kParts[i], json_number(seconds[i]));
    percent.emplace_back(kParts[i], format("%.1f", s.percent()[i]));
  }
  for (int p = 0; p < device::kPhases; ++p)
    phases.emplace_back(device::name_of(device::Phase(p)), json_number(s.compute[p]));
  kinds.emplace_back("all", json(sums_members(s.all)));
  for (int k = 0; k < kCommKinds; ++k)
    kinds.emplace_back(name_of(CommKind(k)), json(sums_members(s.kinds[k])));
  return json({{"rank", concat(r.rank)},
               {"position", json_quote(r.position)},
               {"steps", concat(s.watched)},
               {"seconds", json(parts)},
               {"percent", json(percent)},
               {"seconds of compute", json(phases)},
               {"communication", json(kinds)}});
}

std::string share(std::optional<double> share) {
  return share ? format("%8.1f%%", 100 * *share) : "        -";
}

}  // namespace

std::string trace_events(const Timeline& timeline, int rank, const std::string& position, std::int64_t zero) {
  Events events(rank, zero);
  events.name("process_name", concat("rank ", rank, ": ", position));
  events.name("thread_name", "compute", kCompute);
  events.name("thread_name", "actions", kActions);
  events.name("thread_name", "communication", kCommunication);
  for (const StepSpan& s : timeline.steps())
    events.complete(kActions, "step", concat("step ", s.step), s.span, {});
  for (const ActionSpan& a : timeline.actions())
    events.complete(kActions, "action", concat(name_of(a.action.kind), " ", a.action.micro_batch), a.span,
                    {{"stage", concat(a.action.stage)}, {"micro_batch", concat(a.action.micro_batch)}});
  for (const JobSpan& j : timeline.jobs())
    events.complete(kCompute, "job", std::string(j.name), j.span,
                    {{"phase", json_quote(std::string(device::name_of(j.phase)))}});
  for (const WaitSpan& w : timeline.waits()) {
    if (!timeline.begins_in_step(w.span)) continue;
    const CommSpan& c = timeline.communication()[w.of];
    events.complete(
        kCompute, "wait", "wait for " + title(c), w.span,
        {{"kind", json_quote(std::string(name_of(c.kind)))}, {"others ready", events.time(c.ready)}});
  }
  for (const CommSpan& c : timeline.communication()) {
    if (!timeline.begins_in_step(c.span)) continue;
    events.asynchronous(kCommunication, "communication", title(c), c.span,
                        {{"kind", json_quote(std::string(name_of(c.kind)))},
                         {"communicator", json_quote(c.communicator)},
                         {"ranks", json(c.ranks)},
                         {"sent", concat(c.sent)},
                         {"received", concat(c.received)},
                         {"others ready", events.time(c.ready)}});
  }
  return std::move(events).text();
}

std::string profile_json(std::int64_t first, std::int64_t last, const std::vector<RankProfile>& ranks) {
  std::string rows;
  for (const RankProfile& r : ranks) rows += (rows.empty() ? "\n  " : ",\n  ") + rank_json(r);
  return json({{"steps", json(std::vector<int>{int(first), int(last)})}, {"ranks", "[" + rows + "]"}}) + "\n";
}

std::vector<std::string> profile_table(std::int64_t first, std::int64_t last,
                                       const std::vector<RankProfile>& ranks) {
  std::vector<std::string> lines{concat("where the time of ", first == last ? "step " : "steps ", first,
                                        first == last ? "" : concat(" to ", last), " went, by rank:"),
                                 format("%-30s %9s %9s %9s %9s %9s %9s", "", "ms/step", "compute", "exposed",
                                        "bubble", "idle", "hidden")};
  std::array<CommSums, kCommKinds> mean = {};
  for (const RankProfile& r : ranks) {
    const std::array<double, 4> p = r.sums.percent();
    lines.push_back(format("%-30s %9.1f %8.1f%% %8.1f%% %8.1f%% %8.1f%% %s",
                           concat("rank ", r.rank, " (", r.position, ")").c_str(),
                           1e3 * r.sums.step / r.sums.watched, p[0], p[1], p[2], p[3],
                           share(r.sums.all.hidden()).c_str()));
    const double n = double(ranks.size()) * r.sums.watched;
    for (int k = 0; k < kCommKinds; ++k) {
      const CommSums& from = r.sums.kinds[k];
      mean[k].operations += from.operations / n, mean[k].sent += from.sent / n;
      mean[k].under_way += from.under_way / n, mean[k].exposed += from.exposed / n;
      mean[k].bubble += from.bubble / n;
    }
  }
  if (std::all_of(mean.begin(), mean.end(), [](const CommSums& s) { return s.operations == 0; }))
    return lines;
  lines.push_back(format("%-30s %9s %9s %9s %9s %9s %9s", "a rank's mean step", "MB sent", "under way",
                         "exposed", "bubble", "", "hidden"));
  for (int k = 0; k < kCommKinds; ++k)
    if (const CommSums& s = mean[k]; s.operations > 0)
      lines.push_back(format("%-30s %9.2f %6.1f ms %6.1f ms %6.1f ms %9s %s",
                             std::string(name_of(CommKind(k))).c_str(), 1e-6 * s.sent, 1e3 * s.under_way,
                             1e3 * s.exposed, 1e3 * s.bubble, "", share(s.hidden()).c_str()));
  return lines;
}

}  // namespace strata::train
