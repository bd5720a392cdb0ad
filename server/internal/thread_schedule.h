#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace kintsugi::server {

/// How the kernel schedules a thread: its `struct sched_attr`, whose header does not go together
/// with <sched.h>. Source: sched_setattr(2).
struct ThreadSchedule {
  std::uint32_t size = sizeof(ThreadSchedule);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  ///< of SCHED_OTHER since Linux 6.12: how long its turns are
  std::uint64_t deadline_ns = 0, period_ns = 0;
};
static_assert(sizeof(ThreadSchedule) == 48);

/// Of the calling thread; nullopt: the kernel does not tell.
inline std::optional<ThreadSchedule> this_thread_schedule() noexcept {
  ThreadSchedule schedule;
  if (::syscall(SYS_sched_getattr, 0, &schedule, sizeof(schedule), 0) != 0) {
    return std::nullopt;
  }
  return schedule;
}

}  // namespace kintsugi::server
