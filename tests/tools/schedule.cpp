// `strata schedule`: the grid as text and as JSON, and what wrong options are told.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Words = std::vector<std::string>;

Outcome schedule(Words options) {
  const Workplace place;
  options.insert(options.begin(), "schedule");
  return place.strata(options);
}

struct Grid {
  Words options;
  const char* text;
};

const Grid kGrids[] = {
    {{"--schedule", "1f1b", "--pipeline", "2", "--micro-batches", "3"},
     R"(rank 0  F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2
rank 1  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .

bubble 25.0% of 2 x 12 units: forward takes 1, backward 2
micro-batches in flight at most, by rank: 2 1
)"},
    {{"--schedule", "zero_bubble", "--pipeline", "2", "--micro-batches", "3"},
     R"(rank 0  F0 F1 .  b0 w0 F2 b1 w1 b2 w2
rank 1  .  F0 b0 F1 b1 w0 F2 b2 w1 w2

bubble 10.0% of 2 x 10 units: forward takes 1, backward 2 (b: inputs 1, w: weights 1)
micro-batches in flight at most, by rank: 2 1
micro-batches whose weights wait at most, by rank: 1 2
)"},
    {{"--schedule", "interleaved", "--pipeline", "2", "--virtual", "2", "--micro-batches", "2"},
     R"(rank 0  F0a F1a F0b F1b .   .   B0b B0b .   B1b B1b B0a B0a B1a B1a
rank 1  .   F0a F1a F0b B0b B0b F1b B1b B1b B0a B0a B1a B1a .   .

bubble 20.0% of 2 x 15 units: forward takes 1, backward 2
in flight at most, by rank, in stages x micro-batches: 4 3
)"},
    // Columns are as wide as the widest cell.
    {{"--schedule", "gpipe", "--pipeline", "1", "--micro-batches", "11"},
     "rank 0  F0  F1  F2  F3  F4  F5  F6  F7  F8  F9  F10 B0  B0  B1  B1  B2  B2  B3  B3  B4  B4  B5  B5  B6 "
     " "
     "B6  B7  B7  B8  B8  B9  B9  B10 B10\n\nbubble 0.0% of 1 x 33 units: forward takes 1, backward 2\n"
     "micro-batches in flight at most, by rank: 11\n"},
};

TEST(ScheduleCommand, PrintsTheGrid) {
  for (const Grid& g : kGrids) {
    const Outcome o = schedule(g.options);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, g.text);
    EXPECT_EQ(o.err, "");
  }
}

// Four sequences in micro-batches of one: two for each of two data-parallel ranks.
TEST(ScheduleCommand, TakesAConfiguration) {
  const Words config{tiny_config(), "--set", "training.micro_batch_size=1", "--set",
                     "parallel.pipeline_model_parallel_size=2"};
  const Words options{"--schedule", "1f1b", "--pipeline", "2", "--micro-batches"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Outcome four = schedule(config);
  EXPECT_EQ(four.status, 0) << four.err;
  EXPECT_EQ(four.out, schedule(with(options, {"4"})).out);
  EXPECT_EQ(schedule(with(config, {"--world", "4"})).out, schedule(with(options, {"2"})).out);
  EXPECT_EQ(schedule(with(config, {"--set", "parallel.expert_model_parallel_size=2"})).out,
            schedule(with(options, {"2"})).out);
}

TEST(ScheduleCommand, PrintsJson) {
  const Outcome o =
      schedule({"--schedule", "zero_bubble", "--pipeline", "2", "--micro-batches", "3", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const auto j = nlohmann::json::parse(o.out);
  EXPECT_EQ(j.at("schedule"), "zero_bubble");
  EXPECT_EQ(j.at("pipeline"), 2);
  EXPECT_EQ(j.at("virtual"), 1);
  EXPECT_EQ(j.at("micro_batches"), 3);
  EXPECT_EQ(j.at("length"), 10);
  EXPECT_DOUBLE_EQ(j.at("bubble").get<double>(), 0.1);
  EXPECT_EQ(j.at("peak_in_flight"), nlohmann::json({2, 1}));
  EXPECT_EQ(j.at("peak_late_weights"), nlohmann::json({1, 2}));
  ASSERT_EQ(j.at("grid").size(), 2u);
  const nlohmann::json& last = j.at("grid")[1];
  EXPECT_EQ(last.size(), 9u);
  const auto action = [](const char* kind, int micro_batch, int begin) {
    return nlohmann::json{
        {"action", kind}, {"stage", 1}, {"micro_batch", micro_batch}, {"begin", begin}, {"end", begin + 1}};
  };
  EXPECT_EQ(last.at(0), action("forward", 0, 1));
  EXPECT_EQ(last.at(1), action("backward_input", 0, 2));
  EXPECT_EQ(last.at(4), action("backward_weight", 0, 5));
  EXPECT_EQ(j.at("grid")[0].at(0).at("stage"), 0);
}

struct Wrong {
  Words options;
  const char* message;
};

const Wrong kWrong[] = {
    {{}, "schedule: --schedule or CONFIG is required"},
    {{"--schedule", "1f1b"}, "schedule: --pipeline or CONFIG is required"},
    {{"--schedule", "1f1b", "--pipeline", "2"}, "schedule: --micro-batches or CONFIG is required"},
    {{"--schedule", "zerobubble", "--pipeline", "2", "--micro-batches", "3"},
     "schedule: --schedule is \"zerobubble\", nearest is zero_bubble, allowed is \"gpipe\", \"1f1b\", "
     "\"interleaved\" or \"zero_bubble\""},
    {{"--schedule", "1f1b", "--pipeline", "0", "--micro-batches", "3"},
     "schedule: --pipeline: Value 0 not in range 1 to 1024"},
    {{"--schedule", "1f1b", "--pipeline", "two", "--micro-batches", "3"},
     "schedule: --pipeline: Value two not in range 1 to 1024"},
    {{"--schedule", "1f1b", "--pipeline", "2", "--micro-batches", "-1"},
     "schedule: --micro-batches: Value -1 not in range 1 to 1048576"},
    {{"--schedule", "1f1b", "--pipeline", "2", "--virtual", "2", "--micro-batches", "3"},
     "schedule: --virtual is 2, with --schedule 1f1b allowed is 1"},
    {{"--schedule", "interleaved", "--pipeline", "2", "--micro-batches", "3"},
     "schedule: --virtual is 1, with --schedule interleaved allowed is at least 2"},
    {{"--schedule", "gpipe", "--pipeline", "2", "--virtual", "27", "--micro-batches", "3"},
     "schedule: --virtual: Value 27 not in range 1 to 26"},
    {{"--schedule", "gpipe", "--pipeline", "1024", "--micro-batches", "1025"},
     "schedule: --pipeline 1024 times --virtual 1 times --micro-batches 1025 is more than the 1048576 "
     "forwards "
     "that can be shown"},
    {{"--schedule", "1f1b", "--pipeline", "2", "--micro-batches", "3", "--micro-batch", "2"},
     "schedule: --micro-batch is not an option, nearest is --micro-batches, there are --help, --set, "
     "--world, --schedule, --pipeline, --virtual, --micro-batches, --json"},
    {{tiny_config(), "--schedule", "1f1b"}, "schedule: CONFIG excludes --schedule"},
    {{"--world", "2", "--schedule", "1f1b", "--pipeline", "2", "--micro-batches", "3"},
     "schedule: --world requires CONFIG"},
    {{tiny_config(), "--world", "3", "--set", "parallel.expert_model_parallel_size=2"},
     "schedule: --world is 3, allowed is a multiple of 2: parallel.pipeline_model_parallel_size 1 times "
     "expert_model_parallel_size 2"},
};

TEST(ScheduleCommand, WrongOptionsAreToldInOneSentence) {
  for (const Wrong& w : kWrong) {
    const Outcome o = schedule(w.options);
    EXPECT_EQ(o.status, 2) << w.message;
    EXPECT_EQ(o.err, std::string("strata: ") + w.message + "\n");
    EXPECT_EQ(o.out, "") << w.message;
  }
}

}  // namespace
}  // namespace strata::test
