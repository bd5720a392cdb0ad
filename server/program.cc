#include "server/program.h"

#include <sys/resource.h>

#include <cstdio>

#include "server/internal/thread_schedule.h"

namespace kintsugi::server {

int complain(const std::string& command, const std::string& text, int status) {
  std::fprintf(stderr, "kintsugi %s: %s\n", command.c_str(), text.c_str());
  return status;
}

int complain(const std::string& command, const Error& error, int status) {
  return complain(command, std::string(error.message()), status);
}

void raise_descriptor_limit() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // else it stays as it is, and so do the limits
  }
}

void take_short_turns() noexcept {
  auto mine = this_thread_schedule();
  if (mine && mine->policy == SCHED_OTHER) {
    mine->runtime_ns = 100'000;  // the least
    (void)::syscall(SYS_sched_setattr, 0, &*mine, 0);
  }
}

}  // namespace kintsugi::server
