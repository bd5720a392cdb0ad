#include "server/program.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <thread>

#include "server/internal/thread_schedule.h"

namespace kintsugi::server {
namespace {

/// [ns]; 0: this kernel has one for all.
std::uint64_t slice() { return this_thread_schedule().value_or(ThreadSchedule{}).runtime_ns; }
int priority() { return this_thread_schedule().value_or(ThreadSchedule{}).nice; }

TEST(Program, SE005_ThreadsTakeShortTurnsOnTheirCpuAndKeepTheirPriority) {
  if (slice() == 0) {
    GTEST_SKIP() << "turns of threads have one length for all (Linux before 6.12)";
  }
  std::uint64_t here = 0, next = 0;
  int nice_before = 0, nice_after = 0;
  std::thread thread([&] {
    EXPECT_EQ(::setpriority(PRIO_PROCESS, 0, 3), 0);
    nice_before = priority();
    take_short_turns();
    here = slice();
    nice_after = priority();
    std::thread([&] { next = slice(); }).join();
  });
  thread.join();
  EXPECT_EQ(here, 100'000U);
  EXPECT_EQ(next, 100'000U);
  EXPECT_EQ(nice_after, nice_before);
}

}  // namespace
}  // namespace kintsugi::server
