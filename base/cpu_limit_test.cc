#include "base/cpu_limit.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

#include "base/testing/folder_fixture.h"

namespace kintsugi {
namespace {

class CpuLimits : public FolderFixture {};

TEST_F(CpuLimits, OP_206_WithoutAQuotaTheAffinityDecides) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  const auto all = static_cast<unsigned>(CPU_COUNT(&set));
  const CpuLimit none = cpu_limit(root_);
  EXPECT_EQ(none.allowed, all);
  EXPECT_EQ(none.quota, 0);
  EXPECT_EQ(none.cores(), all);
  EXPECT_EQ(none.bound(), "the CPUs it may run on");
  write("/proc/self/cgroup", "0::/a\n");
  write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_limit(root_).quota, 0);
  write("/sys/fs/cgroup/a/cpu.max", "garbage");
  EXPECT_EQ(cpu_limit(root_).quota, 0);
}

TEST_F(CpuLimits, OP_206_TheLeastQuotaOfAllGroupsCounts) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_limit(root_).quota, 3.0);
  write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_limit(root_).quota, 0.5);
  EXPECT_EQ(cpu_limit(root_).cores(), 1U);
}

TEST_F(CpuLimits, OP_206_WhenTheFirstVersionIsMounted_ReadsIt) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/pod\n3:cpuset:/other\n");
  write("/sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_limit(root_).quota, 0);
  write("/sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cpu_limit(root_).quota, 2.5);
}

TEST(CpuLimit, OP_206_APartOfACpuIsCountedWholeAndTheLessDecides) {
  const CpuLimit many{.allowed = 64, .quota = 1.5};
  EXPECT_EQ(many.cores(), 2U);
  EXPECT_EQ(many.bound(), "the CPU quota of the control group");
  const CpuLimit few{.allowed = 2, .quota = 8};
  EXPECT_EQ(few.cores(), 2U);
  EXPECT_EQ(few.bound(), "the CPUs it may run on");
  const CpuLimit tiny{.allowed = 4, .quota = 0.01};
  EXPECT_EQ(tiny.cores(), 1U);
}

}  // namespace
}  // namespace kintsugi
