#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include <string>

#include "base/testing/folder_fixture.h"

namespace kintsugi {
namespace {

class MemoryLimit : public FolderFixture {};

TEST_F(MemoryLimit, WhenThereIsNoControlGroup_IsTheMachinesMemory) {
  const std::size_t all = memory_limit(root_);
  EXPECT_GT(all, 64U << 20);
  write("/proc/self/cgroup", "garbage\n\n:\n::\n0::\n");
  EXPECT_EQ(memory_limit(root_), all);
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_), all);
}

TEST_F(MemoryLimit, WhenAnOuterGroupHasLess_IsTheLeast) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "5000000\n");
  write("/sys/fs/cgroup/a/memory.max", "3000000\n");
  EXPECT_EQ(memory_limit(root_), 3'000'000U);
  write("/sys/fs/cgroup/memory.max", "2000000\n");  // as a container sees its own
  EXPECT_EQ(memory_limit(root_), 2'000'000U);
}

TEST_F(MemoryLimit, SE090_WhenAGroupIsSlowedDownBeforeItsLimit_ThatCounts) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "5000000\n");
  write("/sys/fs/cgroup/a/b/memory.high", "4000000\n");
  EXPECT_EQ(memory_limit(root_), 4'000'000U);
  write("/sys/fs/cgroup/a/b/memory.high", "max\n");
  EXPECT_EQ(memory_limit(root_), 5'000'000U);
  write("/sys/fs/cgroup/a/memory.high", "1000000\n");
  EXPECT_EQ(memory_limit(root_), 1'000'000U);
}

TEST_F(MemoryLimit, WhenTheFirstVersionIsMounted_ReadsIt) {
  write("/proc/self/cgroup", "5:cpu,memory:/pod\n4:pids:/pod\n");
  write("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "4000000\n");
  EXPECT_EQ(memory_limit(root_), 4'000'000U);
}

}  // namespace
}  // namespace kintsugi
