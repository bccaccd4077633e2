// A save killed at every one of its file operations: afterwards the checkpoint before it or the new one is
// found, whole, and nothing else is left.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/async_saver.h"
#include "samples.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

// Whether the child died as told; false: it came to its end first.
template <class Body>
bool is_killed(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
  EXPECT_TRUE(killed || (WIFEXITED(state) && WEXITSTATUS(state) == 0));
  return killed;
}

float seed_of(const checkpoint::Opened& opened) {
  std::vector<float> values(3);
  opened.file("model.safetensors").read("model.norm.weight", std::span(values));
  return values[0];
}

struct Count {
  int calls = 0, old = 0, fresh = 0;
};

// After steps 5 and 10 a save of `next`, killed at each call in turn.
Count kill_everywhere(std::int64_t next, KeepPolicy keep, bool in_background) {
  constexpr float kSeed = 7;
  const TempFolder before;
  CheckpointStore(before.path(), {}).save(sample_snapshot(5));
  CheckpointStore(before.path(), {}).save(sample_snapshot(10));
  Count n;
  for (bool killed = true; killed; ++n.calls) {
    const TempFolder folder;
    fs::copy(before.path(), folder.path(), fs::copy_options::recursive);
    CheckpointStore store(folder.path(), keep);
    killed = is_killed([&] {
      store.set_faults({.kill_at_call = n.calls});
      checkpoint::AsyncSaver saver(store, in_background);
      saver.save(sample_snapshot(next, kSeed));
      saver.finish();
    });
    const Found found = find_newest(store);
    EXPECT_TRUE(found.opened) << "killed at call " << n.calls;
    if (!found.opened) return n;
    EXPECT_TRUE(found.reports.empty()) << found.reports[0];
    const bool is_new = seed_of(*found.opened) == kSeed;
    expect_sample(*found.opened, is_new ? next : 10, is_new ? kSeed : 0);
    ++(is_new ? n.fresh : n.old);
    for (const std::string& name : names_in(folder.path())) EXPECT_TRUE(checkpoint::step_of(name)) << name;
    if (n.calls % 8) continue;
    store.save(sample_snapshot(30));  // and goes on
    expect_sample(*find_newest(store).opened, 30);
  }
  return n;
}

TEST(KilledSave, NextStep) {
  const Count n = kill_everywhere(20, {}, false);
  EXPECT_GT(n.old, 20);
  EXPECT_GE(n.fresh, 2) << "killed after the rename, and not killed";
}

TEST(KilledSave, InTheBackground) {
  const Count n = kill_everywhere(20, {}, true);
  EXPECT_GT(n.old, 20);
  EXPECT_GE(n.fresh, 2);
}

TEST(KilledSave, WhileOldOnesAreRemoved) {
  const Count n = kill_everywhere(20, {1, 0}, false);
  EXPECT_GT(n.old, 20);
  EXPECT_GT(n.fresh, 12) << "two checkpoints of five files go";
}

TEST(KilledSave, WhileAStepIsReplaced) {
  const Count n = kill_everywhere(10, {}, false);
  EXPECT_GT(n.old, 20);
  EXPECT_GT(n.fresh, 5);
}

// The clean-up after a killed save may be killed as well.
TEST(KilledSave, WhileLeftoversAreRemoved) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.save(sample_snapshot(10));
  fs::copy(folder / "step_00000010", folder / ".step_00000020.tmp-1", fs::copy_options::recursive);
  fs::copy(folder / "step_00000010", folder / ".step_00000005.gone-1", fs::copy_options::recursive);
  fs::rename(folder / "step_00000010", folder / ".step_00000010.old-1");
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    killed = is_killed([&] {
      CheckpointStore other(folder.path(), {});
      other.set_faults({.kill_at_call = calls % 3});
      find_newest(other);
    });
    if (fs::exists(folder / "step_00000010"))
      expect_sample(checkpoint::open_checkpoint(folder / "step_00000010"), 10);
  }
  EXPECT_GT(calls, 3);
  expect_sample(*find_newest(store).opened, 10);
  EXPECT_EQ(names_in(folder.path()).size(), 1u);
}

}  // namespace
}  // namespace strata::test
