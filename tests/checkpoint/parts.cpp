// One step written by two processes: whichever of them dies, and wherever, the checkpoint before stays.
#include "checkpoint/parts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "samples.h"

namespace strata::test {
namespace {

constexpr float kSeed = 7;

// The files of sample_snapshot, divided.
Snapshot part_of(std::int64_t step, int rank) {
  const Snapshot whole = sample_snapshot(step, kSeed);
  Snapshot part;
  part.step = step;
  const char* name = rank == 0 ? "model.safetensors" : "optimizer.safetensors";
  part.files[name] = whole.files.at(name);
  if (rank == 0) part.texts = whole.texts;
  return part;
}

// The second rank is a child, the first this process: either is told to die at a call of its own. Empty where
// the step is saved, else why not; "killed" where the first rank died.
std::string save_by_two(const std::string& root, int first_dies, int second_dies) {
  const pid_t first = fork();
  if (first == 0) {
    CheckpointStore store(root, {});
    store.set_faults({.kill_at_call = first_dies});
    const std::string folder = store.begin(20, 1000);
    const pid_t second = fork();
    if (second == 0) {
      CheckpointStore other(root, {});
      other.set_faults({.kill_at_call = second_dies});
      other.write_part(folder, 1, part_of(20, 1));
      _exit(0);
    }
    int state = 0;
    store.write_part(folder, 0, part_of(20, 0));
    waitpid(second, &state, 0);
    const std::string fault = message_of([&] { store.complete(20, 2, {.patience = 0.01}); });
    const bool died = WIFSIGNALED(state);
    const bool told = fault.starts_with("step 20 is not saved: rank 1 has not written its part");
    _exit(fault == "no error" ? 0 : told && died ? 1 : 2);
  }
  int state = 0, ignored = 0;
  EXPECT_EQ(waitpid(first, &state, 0), first);
  while (waitpid(-1, &ignored, 0) > 0) continue;  // an orphan ends its part
  if (WIFSIGNALED(state)) return "killed";
  EXPECT_NE(WEXITSTATUS(state), 2);
  return WEXITSTATUS(state) == 0 ? "" : "not saved";
}

// Kills one of the ranks at every one of its calls in turn.
void kill_everywhere(bool first) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int calls = 0, old = 0;
  for (bool dies = true; dies; ++calls) {
    const TempFolder folder;
    CheckpointStore store(folder.path(), {});
    store.save(sample_snapshot(10));
    const std::string outcome = save_by_two(folder.path(), first ? calls : -1, first ? -1 : calls);
    dies = !outcome.empty();
    const Found found = find_newest(store);
    ASSERT_TRUE(found.opened) << calls;
    EXPECT_TRUE(found.reports.empty()) << found.reports[0];
    const bool fresh = found.opened->step() == 20;
    EXPECT_EQ(found.opened->manifest().files.size(), 4u);
    expect_sample(*found.opened, fresh ? 20 : 10, fresh ? kSeed : 0);
    for (const std::string& name : names_in(folder.path())) EXPECT_TRUE(checkpoint::step_of(name)) << name;
    EXPECT_TRUE(fresh == !dies || first) << calls;
    old += !fresh;
  }
  EXPECT_GT(old, 6);
}

TEST(PartsOfRanks, TheSecondRankDies) { kill_everywhere(false); }
TEST(PartsOfRanks, TheFirstRankDies) { kill_everywhere(true); }

TEST(PartsOfRanks, FailuresAndSilenceAreNamed) {
  const TempFolder folder;
  checkpoint::Disk disk;
  const auto collect = [&](const checkpoint::PartsWait& wait) {
    return message_of([&] { checkpoint::collect_parts(disk, folder.path(), 2, wait); });
  };
  checkpoint::write_part(disk, folder.path(), 0, part_of(3, 0));
  EXPECT_EQ(collect({.patience = 0.01}), "rank 1 has not written its part, and nothing in " + folder.path() +
                                             " has changed for 0.01 seconds");
  const std::atomic<bool> given_up{true};
  EXPECT_EQ(collect({.given_up = &given_up}), "rank 1 has not written its part");
  checkpoint::Disk full({.full_after_bytes = 0});
  EXPECT_THROW(checkpoint::write_part(full, folder.path(), 1, part_of(3, 1)), Error);
  EXPECT_EQ(collect({}), "rank 1 could not write its part") << "at once";
}

TEST(PartsOfRanks, HaveFilesOfTheirOwn) {
  const TempFolder folder;
  checkpoint::Disk disk;
  checkpoint::write_part(disk, folder.path(), 0, part_of(3, 0));
  Snapshot nothing;
  nothing.step = 3;
  checkpoint::write_part(disk, folder.path(), 1, nothing);
  EXPECT_EQ(checkpoint::collect_parts(disk, folder.path(), 2, {}).size(), 3u);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"config.json", "model.safetensors", "state.json"}));
}

}  // namespace
}  // namespace strata::test
