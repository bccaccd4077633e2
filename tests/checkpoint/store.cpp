// A store saves whole checkpoints, finds the newest sound one, and says what hinders it.
#include "checkpoint/store.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "samples.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(CheckpointStore, WhatIsSavedIsFound) {
  const TempFolder folder;
  CheckpointStore store(folder / "run/checkpoints", {});
  EXPECT_TRUE(store.list().empty());
  EXPECT_FALSE(find_newest(store).opened);
  store.save(sample_snapshot(10));
  store.save(sample_snapshot(20, 3));
  EXPECT_EQ(names_in(store.root()), (Names{"step_00000010", "step_00000020"}));
  ASSERT_EQ(store.list().size(), 2u);
  EXPECT_EQ(store.list()[0].step, 10);
  EXPECT_EQ(store.list()[1].folder, store.root() + "/step_00000020");
  const Found found = find_newest(store);
  ASSERT_TRUE(found.opened);
  expect_sample(*found.opened, 20, 3);
  EXPECT_EQ(found.reports, Names{});
  expect_sample(checkpoint::open_checkpoint(store.list()[0].folder), 10);
}

TEST(CheckpointStore, FilesAreHeaderAndTensorsAndNoMore) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.save(sample_snapshot(1));
  const std::string path = folder / "step_00000001/model.safetensors";
  const std::string bytes = read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(bytes.size(), 8 + header + (3 + 4) * sizeof(float));
  EXPECT_EQ(header % 8, 0u);
  EXPECT_LT(bytes.find("lm_head"), bytes.find("model.norm")) << "in name order";
}

TEST(CheckpointStore, NamesOfSteps) {
  using checkpoint::step_name;
  using checkpoint::step_of;
  EXPECT_EQ(step_name(0), "step_00000000");
  EXPECT_EQ(step_name(1234567890123), "step_1234567890123");
  EXPECT_EQ(step_of("step_00000007"), 7);
  EXPECT_EQ(step_of("step_1234567890123"), 1234567890123);
  for (const char* name :
       {"step_7", "step_000000007", "step_0000000a", "step_00000007.damaged", "step_", "step",
        ".step_00000007.tmp-1", "step_-0000007", "step_99999999999999999999999", ""})
    EXPECT_FALSE(step_of(name)) << name;
}

TEST(CheckpointStore, OtherThingsInTheFolderAreLeftAlone) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {1, 0});
  write_file(folder / "step_00000099", "a file");
  write_file(folder / "notes.txt", "mine");
  fs::create_directories(folder / "step_5");
  fs::create_directories(folder / ".step_00000005.mine-1");
  store.save(sample_snapshot(1));
  store.save(sample_snapshot(2));
  const Found found = find_newest(store);
  ASSERT_TRUE(found.opened);
  EXPECT_EQ(found.opened->step(), 2);
  EXPECT_EQ(found.reports, Names{});
  EXPECT_EQ(names_in(store.root()),
            (Names{".step_00000005.mine-1", "notes.txt", "step_00000002", "step_00000099", "step_5"}));
}

TEST(CheckpointStore, AStepSavedAgainIsReplaced) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.save(sample_snapshot(10, 1));
  store.save(sample_snapshot(10, 2));
  EXPECT_EQ(names_in(store.root()), Names{"step_00000010"});
  expect_sample(*find_newest(store).opened, 10, 2);
}

TEST(CheckpointStore, LeftoversOfKilledSavesGo) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.save(sample_snapshot(10));
  fs::create_directories(folder / ".step_00000020.tmp-123");
  write_file(folder / ".step_00000020.tmp-123/model.safetensors", "half");
  fs::create_directories(folder / ".step_00000005.gone-9");
  fs::copy(folder / "step_00000010", folder / ".step_00000010.old-77");
  const Found found = find_newest(store);
  EXPECT_EQ(found.opened->step(), 10);
  EXPECT_EQ(found.reports, Names{});
  EXPECT_EQ(names_in(store.root()), Names{"step_00000010"});
  fs::rename(folder / "step_00000010", folder / ".step_00000010.old-77");
  expect_sample(*find_newest(store).opened, 10);
  EXPECT_EQ(names_in(store.root()), Names{"step_00000010"});
}

TEST(CheckpointStore, AllCanBeRemoved) {
  const TempFolder folder;
  CheckpointStore store(folder / "none", {});
  store.remove_all();
  CheckpointStore full(folder.path(), {});
  full.save(sample_snapshot(10));
  full.save(sample_snapshot(20));
  fs::rename(folder / "step_00000010", folder / ".step_00000010.old-77");
  fs::create_directories(folder / "step_00000005.damaged");
  full.remove_all();
  EXPECT_EQ(names_in(folder.path()), Names{"step_00000005.damaged"});
  EXPECT_FALSE(find_newest(full).opened);
}

TEST(CheckpointStore, NothingIsRenamedBeforeItIsOnTheDisk) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  std::vector<std::string> calls;
  const std::string root = store.root() + "/";
  checkpoint::SaveFaults watch;
  watch.before_call = [&](std::string_view what, const std::string& path) {
    const std::string name = path.size() > root.size() ? fs::path(path).filename().string() : ".";
    if (what != "write") calls.push_back(concat(what, " ", name));
  };
  store.set_faults(watch);
  store.save(sample_snapshot(3));
  const std::string aside = ".step_00000003.tmp-" + std::to_string(getpid());
  EXPECT_EQ(calls, (Names{"make " + aside, "create model.safetensors", "sync model.safetensors",
                          "create optimizer.safetensors", "sync optimizer.safetensors", "create config.json",
                          "sync config.json", "create state.json", "sync state.json", "create manifest.json",
                          "sync manifest.json", "sync " + aside, "rename " + aside, "sync ."}));
}

TEST(CheckpointStore, AFullDiskLeavesEverythingAsItWas) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {1, 0});
  store.save(sample_snapshot(10));
  bool fits = false;
  for (std::int64_t room = 0; !fits && room < 5000; room += 61) {
    store.set_faults({.full_after_bytes = room});
    const std::string message = message_of([&] { store.save(sample_snapshot(20)); });
    fits = message == "no error";
    if (fits) break;
    EXPECT_TRUE(message.starts_with("step 20 is not saved: cannot write ")) << message;
    EXPECT_TRUE(message.ends_with(": No space left on device")) << message;
    EXPECT_EQ(names_in(store.root()), Names{"step_00000010"});
    expect_sample(*find_newest(store).opened, 10);
  }
  EXPECT_TRUE(fits);
  expect_sample(*find_newest(store).opened, 20);
}

TEST(CheckpointStore, FreeSpaceIsAskedForFirst) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.set_faults({.kill_at_call = 0, .free_bytes = 1 << 24});
  const std::string message = message_of([&] { store.save(sample_snapshot(10)); });
  EXPECT_TRUE(message.starts_with(concat("cannot save step 10 to ", folder.path(), ": it needs ")))
      << message;
  EXPECT_TRUE(message.ends_with(" bytes and 16777216 to spare, the disk has 16777216 free")) << message;
  EXPECT_EQ(names_in(store.root()), Names{});
}

TEST(CheckpointStore, ARootThatIsAFileIsRefused) {
  const TempFolder folder;
  write_file(folder / "file", "");
  CheckpointStore store(folder / "file", {});
  EXPECT_TRUE(message_of<InputError>([&] {
                store.save(sample_snapshot(1));
              }).starts_with("cannot make the folder of checkpoints " + folder.path() + "/file: "));
  EXPECT_EQ(message_of<InputError>([&] { find_newest(store); }),
            "cannot read the folder " + folder.path() + "/file: Not a directory");
  CheckpointStore below(folder / "file/deep", {});
  EXPECT_NE(message_of<InputError>([&] { below.save(sample_snapshot(1)); }), "no error");
}

// Runs `body` as a user without special rights; its exit status.
template <class Body>
int as_nobody(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(99);
    _exit(body());
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

TEST(CheckpointStore, PermissionIsNotDamage) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  CheckpointStore store(folder / "checkpoints", {});
  store.save(sample_snapshot(10));
  fs::permissions(store.root(), fs::perms(0555));
  EXPECT_EQ(as_nobody([&] {
              const std::string message = message_of([&] { store.save(sample_snapshot(20)); });
              return message.ends_with(": Permission denied") ? 0 : 1;
            }),
            0)
      << "nothing can be written";
  EXPECT_EQ(as_nobody([&] { return find_newest(store).opened->step() == 10 ? 0 : 1; }), 0) << "but read";
  fs::permissions(folder / "checkpoints/step_00000010/model.safetensors", fs::perms(0));
  EXPECT_EQ(as_nobody([&] {
              return message_of<InputError>([&] { find_newest(store); }).ends_with(": Permission denied") ? 0
                                                                                                          : 1;
            }),
            0)
      << "a file that may not be read is not damaged";
  fs::permissions(store.root(), fs::perms(0755));
  EXPECT_EQ(names_in(store.root()), Names{"step_00000010"});
}

TEST(CheckpointStore, DamageOnADiskThatCannotBeWrittenIsStillPassedOver) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  CheckpointStore store(folder / "c", {});
  store.save(sample_snapshot(10));
  store.set_faults({.flip_bit = true});
  store.save(sample_snapshot(20));
  fs::permissions(store.root(), fs::perms(0555));
  EXPECT_EQ(as_nobody([&] {
              const Found found = find_newest(store);
              const bool said = found.reports.size() == 1 &&
                                found.reports[0].find("left there, cannot rename") != std::string::npos;
              return found.opened->step() == 10 && said ? 0 : 1;
            }),
            0);
  fs::permissions(store.root(), fs::perms(0755));
}

TEST(CheckpointStore, OddSnapshotsAreRefused) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  for (const char* name : {"", "manifest.json", "a/b", "..", ".hidden"}) {
    Snapshot s = sample_snapshot(1);
    s.texts[name] = "x";
    EXPECT_THROW(store.save(s), Error) << name;
  }
  Snapshot twice = sample_snapshot(1);
  twice.texts["model.safetensors"] = "x";
  EXPECT_THROW(store.save(twice), Error);
  Snapshot negative = sample_snapshot(-1);
  EXPECT_THROW(store.save(negative), Error);
  Snapshot same = sample_snapshot(1);
  same.files["model.safetensors"].push_back(same.files["model.safetensors"][0]);
  EXPECT_THROW(store.save(same), Error);
  Snapshot wrong = sample_snapshot(1);
  wrong.files["model.safetensors"][0].bytes.pop_back();
  EXPECT_THROW(store.save(wrong), Error);
  EXPECT_EQ(names_in(store.root()), Names{});
}

TEST(CheckpointStore, OpenedNamesWhatIsNotThere) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.save(sample_snapshot(10));
  const auto opened = find_newest(store).opened;
  EXPECT_TRUE(opened->has("state.json"));
  EXPECT_FALSE(opened->has("none.json"));
  EXPECT_EQ(message_of<InputError>([&] { opened->text("none.json"); }),
            folder.path() + "/step_00000010 has no file none.json");
  EXPECT_THROW(opened->file("manifest.json"), InputError);
  EXPECT_THROW(checkpoint::open_checkpoint(folder / "step_00000011"), InputError);
}

}  // namespace
}  // namespace strata::test
