// Which checkpoints a policy keeps, and the section that states it.
#include "base/json_config.h"
#include "samples.h"

namespace strata::test {
namespace {

using checkpoint::CheckpointSection;
using Steps = std::vector<std::int64_t>;

Steps gone(const Steps& steps, std::int64_t saved, KeepPolicy keep) {
  return checkpoint::outlived(steps, saved, keep);
}

TEST(KeepPolicy, NewestOnes) {
  EXPECT_EQ(gone({10, 20, 30, 40}, 40, {3, 0}), Steps{10});
  EXPECT_EQ(gone({10, 20, 30, 40}, 40, {1, 0}), (Steps{10, 20, 30}));
  EXPECT_EQ(gone({10, 20}, 20, {3, 0}), Steps{}) << "fewer than are kept";
  EXPECT_EQ(gone({}, 0, {3, 0}), Steps{});
  EXPECT_EQ(gone({10, 20, 30}, 30, {0, 0}), Steps{}) << "0 keeps all";
  EXPECT_EQ(gone({10, 20, 30}, 30, {0, 20}), Steps{});
  EXPECT_EQ(gone({10, 20, 30}, 30, {std::int64_t(1) << 62, 0}), Steps{});
}

TEST(KeepPolicy, MultiplesOfTheIntervalStayBesides) {
  EXPECT_EQ(gone({10, 20, 30, 40}, 40, {3, 20}), Steps{10});
  EXPECT_EQ(gone({10, 20, 30, 40, 50}, 50, {3, 20}), Steps{10})
      << "two of five are multiples; 50, 40, 30 are the newest";
  EXPECT_EQ(gone({10, 20, 30, 40}, 40, {1, 20}), (Steps{10, 30}));
  EXPECT_EQ(gone({0, 5, 10, 15}, 15, {1, 10}), Steps{5});
  EXPECT_EQ(gone({10, 20, 30}, 30, {1, 1}), Steps{});
  EXPECT_EQ(gone({20, 40, 60, 80}, 80, {1, 20}), Steps{}) << "more multiples than are kept";
}

// Going on from step 10 of a run that had come to 30.
TEST(KeepPolicy, StepsOfAnAbandonedFutureNeitherCountNorGo) {
  EXPECT_EQ(gone({10, 15, 20, 30}, 15, {2, 0}), Steps{});
  EXPECT_EQ(gone({5, 10, 15, 20, 30}, 15, {2, 0}), Steps{5});
}

TEST(KeepPolicy, TheStoreFollowsIt) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {2, 40});
  for (std::int64_t step = 10; step <= 90; step += 10) store.save(sample_snapshot(step));
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"step_00000040", "step_00000080", "step_00000090"}));
}

TEST(KeepPolicy, DamagedOnesAreNotCounted) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {2, 0});
  store.save(sample_snapshot(10));
  store.set_faults({.flip_bit = true});
  store.save(sample_snapshot(20));
  store.set_faults({});
  EXPECT_EQ(find_newest(store).opened->step(), 10);
  store.save(sample_snapshot(20));
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"step_00000010", "step_00000020", "step_00000020.damaged"}));
}

std::string complaint(const std::string& text) {
  CheckpointSection section;
  return message_of<InputError>([&] { load_config_text(section, text, "f"); });
}

TEST(CheckpointSection, Values) {
  CheckpointSection section;
  EXPECT_EQ(section.keep(), (KeepPolicy{3, 0}));
  EXPECT_EQ(section.folder("runs/x"), "runs/x/checkpoints");
  load_config_text(section, R"({"save": "elsewhere", "save_interval": 100, "most_recent_k": 2,
                                "save_retain_interval": 1000, "async_save": false})",
                   "f");
  EXPECT_EQ(section.keep(), (KeepPolicy{2, 1000}));
  EXPECT_EQ(section.folder("runs/x"), "elsewhere");
  EXPECT_FALSE(section.async_save);
  CheckpointSection again;
  load_config_text(again, config_json(section), "f");
  EXPECT_EQ(again, section);
}

TEST(CheckpointSection, Refusals) {
  EXPECT_EQ(complaint(R"({"save_interval": -1})"),
            "f: save_interval is -1, allowed is an integer from 0 to 1000000000000000");
  EXPECT_EQ(complaint(R"({"most_recent_k": -1})"),
            "f: most_recent_k is -1, allowed is an integer from 0 to 1000000000000000");
  EXPECT_EQ(complaint(R"({"save_interval": 100, "save_retain_interval": 150})"),
            "f: save_retain_interval is 150, allowed are multiples of save_interval, 100");
  EXPECT_EQ(complaint(R"({"save_interval": 100, "save_retain_interval": 0})"),
            "f: save_retain_interval is 0, allowed is an integer from 1 to 1000000000000000");
  const std::string only = ", but the key is allowed only when save_interval and most_recent_k are above 0";
  EXPECT_EQ(complaint(R"({"save_retain_interval": 100})"), "f: save_retain_interval is 100" + only);
  EXPECT_EQ(complaint(R"({"save_interval": 9, "most_recent_k": 0, "save_retain_interval": 9})"),
            "f: save_retain_interval is 9" + only);
  EXPECT_EQ(complaint(R"({"save": ""})"), "f: save is \"\", allowed is a string that is not empty");
}

}  // namespace
}  // namespace strata::test
