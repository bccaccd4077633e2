// Saving in the background: one at a time, durable before it says so, no error lost.
#include "checkpoint/async_saver.h"

#include <atomic>
#include <mutex>

#include "samples.h"

namespace strata::test {
namespace {

using checkpoint::AsyncSaver;

TEST(AsyncSaver, SavesAllInOrder) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  {
    AsyncSaver saver(store);
    EXPECT_EQ(saver.durable_step(), -1);
    for (std::int64_t step = 1; step <= 5; ++step) saver.save(sample_snapshot(step));
    EXPECT_GE(saver.durable_step(), 4) << "the one before is waited for";
  }
  EXPECT_EQ(store.list().size(), 5u) << "the last is waited for at the end";
  expect_sample(*find_newest(store).opened, 5);
}

TEST(AsyncSaver, WorksMeanwhileAndSpeaksOnlyAfterwards) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  std::mutex gate;
  std::unique_lock closed(gate);
  checkpoint::SaveFaults held;
  held.before_call = [&](std::string_view what, const std::string&) {
    if (what == "rename") std::lock_guard wait(gate);
  };
  store.set_faults(held);
  AsyncSaver saver(store);
  saver.save(sample_snapshot(1));  // comes back although the save cannot end
  EXPECT_EQ(saver.durable_step(), -1);
  EXPECT_TRUE(store.list().empty());
  closed.unlock();
  saver.finish();
  EXPECT_EQ(saver.durable_step(), 1);
  EXPECT_EQ(store.list().size(), 1u);
}

TEST(AsyncSaver, ErrorsComeOutAtTheNextCall) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  AsyncSaver saver(store);
  store.set_faults({.full_after_bytes = 100});
  saver.save(sample_snapshot(1));
  EXPECT_TRUE(message_of([&] { saver.save(sample_snapshot(2)); }).starts_with("step 1 is not saved: "));
  EXPECT_TRUE(store.list().empty()) << "step 2 was not begun";
  saver.finish();
  saver.save(sample_snapshot(3));
  EXPECT_TRUE(message_of([&] { saver.finish(); }).starts_with("step 3 is not saved: "));
  EXPECT_NO_THROW(saver.finish()) << "an error is told once";
  EXPECT_EQ(saver.durable_step(), -1);
  store.set_faults({});
  saver.save(sample_snapshot(4));
  saver.finish();
  EXPECT_EQ(saver.durable_step(), 4);
}

TEST(AsyncSaver, EndsQuietlyAfterAnError) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  store.set_faults({.full_after_bytes = 0});
  AsyncSaver(store).save(sample_snapshot(1));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AsyncSaver, InTheForeground) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {});
  AsyncSaver saver(store, false);
  saver.save(sample_snapshot(1));
  EXPECT_EQ(saver.durable_step(), 1);
  store.set_faults({.full_after_bytes = 0});
  EXPECT_THROW(saver.save(sample_snapshot(2)), Error) << "at once";
}

}  // namespace
}  // namespace strata::test
