// What the kernel still lets a process have, from files as Linux writes them.
#include "device/host_memory.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace strata::test {
namespace {

class HostMemoryLeft : public ::testing::Test {
 protected:
  HostMemoryLeft() {
    put("/proc/meminfo", "MemTotal:       2000 kB\nMemFree:         10 kB\nMemAvailable:   1000 kB\n");
  }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder.path() + path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), text);
  }
  void expect(std::int64_t bytes, const std::string& limit) const {
    const device::HostMemory left = device::host_memory_left(folder.path());
    EXPECT_EQ(left.bytes, bytes);
    EXPECT_EQ(left.limit, limit.empty() ? "" : folder.path() + limit);
  }
  const TempFolder folder;
};

TEST_F(HostMemoryLeft, IsWhatTheHostHasAvailable) {
  expect(1024000, "/proc/meminfo");
  put("/proc/self/cgroup", "1:cpu:/\nnothing\n");
  expect(1024000, "/proc/meminfo");
  EXPECT_GT(device::host_memory_left().bytes, 1 << 20) << "here";
}

TEST_F(HostMemoryLeft, IsBoundedByEachGroupAboveTheProcess) {
  put("/proc/self/cgroup", "0::/job/step\n");
  put("/sys/fs/cgroup/job/step/memory.max", "max\n");
  put("/sys/fs/cgroup/job/step/memory.current", "700000\n");
  expect(1024000, "/proc/meminfo");
  put("/sys/fs/cgroup/job/memory.max", "800000\n");
  put("/sys/fs/cgroup/job/memory.current", "750000\n");
  expect(50000, "/sys/fs/cgroup/job/memory.max");
  put("/sys/fs/cgroup/job/memory.stat", "anon 600000\ninactive_file 30000\nactive_file 7\n");
  expect(80000, "/sys/fs/cgroup/job/memory.max");
  put("/sys/fs/cgroup/job/step/memory.max", "700100\n");
  expect(100, "/sys/fs/cgroup/job/step/memory.max");
  put("/sys/fs/cgroup/job/step/memory.max", "600000\n");
  expect(0, "/sys/fs/cgroup/job/step/memory.max");
}

TEST_F(HostMemoryLeft, KnowsTheOlderGroups) {
  put("/proc/self/cgroup", "5:cpu,memory:/docker/a\n2:memory_other:/b\n");
  put("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "5\n");
  expect(1024000, "/proc/meminfo");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "900000\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
  put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 4\n");
  expect(100004, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

TEST_F(HostMemoryLeft, IsUnknownWhereNothingSays) {
  std::filesystem::remove_all(folder.path() + "/proc");
  expect(0, "");
}

}  // namespace
}  // namespace strata::test
