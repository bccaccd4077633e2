// Where the time of a step goes: what is recorded on meshes of ranks, and how it is summed.
#include "train/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json_value.h"
#include "support/small_model.h"
#include "support/temp_folder.h"
#include "support/test_device.h"
#include "train/layout.h"
#include "train/profile_text.h"

namespace strata::test {
namespace {

using train::CommKind;

// ---- sums of made-up times

comm::Recorder::Time at(std::int64_t ns) { return comm::Recorder::Time(std::chrono::nanoseconds(ns)); }

comm::Waiting on(const std::string& operation, const std::string& communicator, const std::string& what,
                 int rank, int tag) {
  return {.operation = operation,
          .communicator = communicator,
          .what = what,
          .shape = "[3] float32",
          .rank = rank,
          .size = 2,
          .tag = tag,
          .members = {4, 6}};
}

void end(train::Timeline& t, std::int64_t number, const comm::Waiting& w, std::int64_t from,
         std::int64_t to) {
  t.ended({.number = number,
           .operation = w,
           .peer = 1 - w.rank,
           .sent = 10,
           .received = 20,
           .begin = at(from),
           .end = at(to)});
}

TEST(ProfileSums, WaitsAreBubbleUntilTheLastRankHasBegun) {
  train::Timeline mine, other;
  const std::int64_t start = train::now();
  mine.begin_step(7);
  while (train::now() < start + 1000000) continue;
  mine.end_step();
  const double step = 1e-9 * double(mine.steps()[0].span.length());
  const auto ms = [&](double t) { return mine.steps()[0].span.begin + std::int64_t(1e6 * t); };
  // Two messages of one key: the n-th receive belongs to the n-th send, whose clock is 500 ahead.
  const comm::Waiting receive = on("receive", "pipeline", "x", 0, 3),
                      send = on("send", "pipeline", "x", 1, 3);
  end(mine, 1, receive, ms(0.1), ms(0.5));
  end(mine, 2, receive, ms(0.1), ms(0.6));
  mine.waited(1, at(ms(0.2)), at(ms(0.5)));
  end(other, 1, send, ms(0.4) + 500, ms(0.5) + 500);
  end(other, 2, send, ms(0.45) + 500, ms(0.6) + 500);
  // A collective that others had begun long ago, waited for beyond the step.
  end(mine, 3, on("all_reduce", "data", "gradient of a", 0, 3), ms(0.8), ms(2));
  mine.waited(3, at(ms(0.9)), at(ms(2)));
  end(other, 3, on("all_reduce", "data", "gradient of a", 1, 3), ms(0.1) + 500, ms(2) + 500);
  mine.meet({mine.starts(), other.starts()}, {0, 500});

  const train::ProfileSums s = train::sums_of(mine);
  const auto kind = [&](CommKind k) { return s.kinds[int(k)]; };
  EXPECT_NEAR(kind(CommKind::Pipeline).bubble, 0.2e-3, 1e-9);
  EXPECT_NEAR(kind(CommKind::Pipeline).exposed, 0.1e-3, 1e-9);
  EXPECT_NEAR(kind(CommKind::Pipeline).under_way, 0.2e-3, 1e-9) << "0.4 to 0.5, 0.45 to 0.6";
  EXPECT_NEAR(*kind(CommKind::Pipeline).hidden(), 0.5, 1e-5);
  EXPECT_NEAR(kind(CommKind::Gradients).exposed, step - 0.9e-3, 1e-9);
  EXPECT_NEAR(kind(CommKind::Gradients).under_way, step - 0.8e-3, 1e-9);
  EXPECT_EQ(kind(CommKind::Gradients).bubble, 0);
  EXPECT_EQ(kind(CommKind::Weights).hidden(), std::nullopt);
  EXPECT_NEAR(s.all.exposed, step - 0.8e-3, 1e-9);
  EXPECT_NEAR(s.idle(), 0.6e-3, 1e-9);
  EXPECT_EQ(s.all.received, 60);
}

TEST(ProfileSums, PercentsMakeAHundred) {
  train::ProfileSums s;
  s.step = 1;
  for (int i = 0; i < 1000; ++i) {
    s.compute[0] = i * 0.00033, s.compute[2] = i * 0.00034;
    s.all.exposed = (1 - s.computed()) * i * 0.0006;
    s.all.bubble = 1 - s.computed() - s.all.exposed;
    const std::array<double, 4> p = s.percent();
    EXPECT_NEAR(p[0] + p[1] + p[2] + p[3], 100, 1e-9);
    for (const double part : p) EXPECT_GE(part, 0);
  }
}

// ---- steps on ranks

struct Layout {
  int pipeline = 1, data = 1, expert = 1;
};

train::RunConfig small_run(const Layout& layout) {
  train::RunConfig c;
  residual::Config r;
  r.type = residual::Type::Msar, r.num_blocks = 4, r.streams = 2;
  c.model = small_config(r);
  c.model.n_routed_experts = 8;
  c.training.seq_length = 16, c.training.global_batch_size = 8;
  c.optimizer.use_distributed_optimizer = true;
  c.parallel.pipeline_model_parallel_size = layout.pipeline;
  c.parallel.expert_model_parallel_size = layout.expert;
  c.profile.steps = {2, 3};
  return c;
}

struct Outcome {
  std::vector<std::string> lines;
  JsonValue timeline, summary;
  std::vector<pipeline::Action> actions;  // of rank 0, as its schedule has them
};

Outcome profile(const Layout& layout, const std::function<void(train::RunConfig&)>& change = {}) {
  train::RunConfig config = small_run(layout);
  if (change) change(config);
  const TempFolder folder;
  const HostBatch batch = small_batch(config.model, 8, 16);
  Outcome o;
  comm::run_threads(layout.pipeline * layout.data, [&](comm::World& world) {
    const comm::Mesh mesh(world, train::mesh_shape(config, world.size()));
    device::Device device(open_device_options());
    train::Trainer trainer(config, device, mesh);
    train::Profile profile(trainer, folder / "profile");
    for (int step = 1; step <= 4; ++step) {
      profile.begin(step);
      trainer.step(batch);
      profile.end();
      const std::vector<std::string> lines = profile.finish(false);
      EXPECT_EQ(lines.empty(), step != 3 || world.rank() != 0);
      if (!lines.empty()) o.lines = lines;
    }
    if (world.rank() == 0) o.actions = trainer.schedule(8 / layout.data).actions[0];
  });
  o.timeline = parse_json(read_file(folder / "profile/timeline.json"), "timeline", Origin::File);
  o.summary = parse_json(read_file(folder / "profile/summary.json"), "summary", Origin::File);
  return o;
}

// Events of one category on one rank: name, begin, end, in microseconds, by time.
struct Event {
  std::string name;
  double begin, end;
};

std::vector<Event> events(const Outcome& o, int rank, const std::vector<std::string>& categories) {
  std::vector<Event> all;
  for (const JsonValue& e : o.timeline.find("traceEvents")->elements) {
    const JsonValue* category = e.find("cat");
    if (!category || e.find("pid")->integer != rank || !e.find("dur")) continue;
    if (std::count(categories.begin(), categories.end(), category->text) == 0) continue;
    const double begin = e.find("ts")->real;
    all.push_back({e.find("name")->text, begin, begin + e.find("dur")->real});
  }
  std::sort(all.begin(), all.end(), [](const Event& a, const Event& b) { return a.begin < b.begin; });
  return all;
}

// Number of operations by kind, as asynchronous events; each begins before it ends.
std::map<std::string, int> operations(const Outcome& o) {
  std::map<std::string, int> kinds;
  std::map<std::string, double> open;
  for (const JsonValue& e : o.timeline.find("traceEvents")->elements) {
    const std::string phase = e.find("ph")->text;
    if (phase == "b") {
      ++kinds[e.find("args")->find("kind")->text];
      open[e.find("id")->text] = e.find("ts")->real;
    }
    if (phase != "e") continue;
    EXPECT_EQ(open.count(e.find("id")->text), 1u);
    EXPECT_LE(open[e.find("id")->text], e.find("ts")->real);
    open.erase(e.find("id")->text);
  }
  EXPECT_TRUE(open.empty());
  return kinds;
}

void expect_sound(const Outcome& o, int ranks) {
  constexpr double kRounding = 0.002;  // microseconds
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Event> steps = events(o, rank, {"step"}), actions = events(o, rank, {"action"}),
                             compute = events(o, rank, {"job", "wait"});
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].name, "step 2");
    for (const auto* row : {&steps, &actions, &compute})
      for (std::size_t i = 1; i < row->size(); ++i)
        EXPECT_LE((*row)[i - 1].end, (*row)[i].begin + kRounding) << (*row)[i].name;
    for (const auto* row : {&actions, &compute})
      for (const Event& e : *row)
        EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [&](const Event& s) {
          return s.begin <= e.begin + kRounding && e.end <= s.end + kRounding;
        })) << e.name;
    EXPECT_GT(compute.size(), 100u);
    for (const Event& e : actions) EXPECT_GT(e.end, e.begin) << e.name;
  }
  const JsonValue& rows = *o.summary.find("ranks");
  ASSERT_EQ(rows.elements.size(), std::size_t(ranks));
  for (const JsonValue& row : rows.elements) {
    double percent = 0, parts = 0;
    for (const auto& [name, value] : row.find("percent")->members) percent += value.real;
    for (const auto& [name, value] : row.find("seconds")->members)
      if (name != "step") parts += value.real;
    EXPECT_NEAR(percent, 100, 1e-9);
    EXPECT_NEAR(parts, row.find("seconds")->find("step")->real, 1e-9);
    double exposed = 0;
    for (const auto& [name, kind] : row.find("communication")->members) {
      const double mine = kind.find("seconds exposed")->real;
      EXPECT_LE(mine, kind.find("seconds under way")->real + 1e-12) << name;
      exposed += name == "all" ? 0 : mine;
    }
    EXPECT_NEAR(exposed, row.find("seconds")->find("exposed communication")->real, 1e-9);
  }
}

std::vector<std::string> names(const std::vector<Event>& events) {
  std::vector<std::string> all;
  for (const Event& e : events) all.push_back(e.name);
  return all;
}

TEST(Profile, OfAPipeline) {
  const Outcome o = profile({.pipeline = 2});
  expect_sound(o, 2);
  std::vector<std::string> want;
  for (int step = 0; step < 2; ++step)
    for (const pipeline::Action& a : o.actions) want.push_back(concat(name_of(a.kind), " ", a.micro_batch));
  EXPECT_EQ(names(events(o, 0, {"action"})), want);
  const int items = operations(o)["pipeline"];
  EXPECT_GT(items, 0);
  EXPECT_EQ(items % (2 * 2 * 8 * 2), 0) << "steps, ranks, micro-batches, both ways";
  EXPECT_TRUE(std::any_of(o.lines.begin(), o.lines.end(), [](const std::string& l) {
    return l.starts_with("rank 1 (pp 1/2 dp 0/1 ep 0/1)");
  }));
}

TEST(Profile, OfDataAndExpertParallelRanks) {
  const Outcome o = profile({.data = 2, .expert = 2});
  expect_sound(o, 2);
  const std::map<std::string, int> kinds = operations(o);
  for (const char* kind : {"all-to-all", "gradient reduction", "parameter gather", "other"})
    EXPECT_GT(kinds.count(kind), 0u) << kind;
  EXPECT_EQ(kinds.count("pipeline"), 0u);
}

TEST(Profile, OfOneRankAndOfANamedOne) {
  const Outcome alone = profile({});
  expect_sound(alone, 1);
  EXPECT_TRUE(operations(alone).empty());
  const Outcome named = profile({.data = 2}, [](train::RunConfig& c) { c.profile.ranks = {1}; });
  EXPECT_TRUE(events(named, 0, {"job"}).empty());
  EXPECT_FALSE(events(named, 1, {"job"}).empty());
  ASSERT_EQ(named.summary.find("ranks")->elements.size(), 1u);
  EXPECT_EQ(named.summary.find("ranks")->elements[0].find("rank")->integer, 1);
}

TEST(Profile, RankThatIsNotThere) {
  const auto with = [](const Layout& layout, std::int64_t rank) {
    try {
      profile(layout, [&](train::RunConfig& c) { c.profile.ranks = {0, rank}; });
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(with({}, 1), "rank 0: profile.ranks names rank 1, but the run has 1 rank: 0");
  const std::string two = with({.data = 2}, 2);
  EXPECT_TRUE(two.ends_with(": profile.ranks names rank 2, but the run has 2 ranks: 0 to 1")) << two;
}

}  // namespace
}  // namespace strata::test
