#include "server/program.h"

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>

#include "base/log.h"
#include "server/internal/thread_schedule.h"

namespace kintsugi::server {
namespace {

constexpr std::uint64_t kFewFiles = 4096;
std::uint64_t g_files_before = 0;  ///< the soft limit that the process began with; set by main()

}  // namespace

int complain(const std::string& command, const std::string& text, int status) {
  std::fprintf(stderr, "kintsugi %s: %s\n", command.c_str(), text.c_str());
  return status;
}

int complain(const std::string& command, const Error& error, int status) {
  return complain(command, std::string(error.message()), status);
}

void raise_descriptor_limit() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return;
  }
  g_files_before = files.rlim_cur;
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // else it stays as it is, and so do the limits
  }
}

void tell_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return;
  }
  const auto now = static_cast<std::uint64_t>(files.rlim_cur);
  if (now < kFewFiles) {
    log_warn("few files may be open: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
             {{"files", now}, {"soft_limit_before", g_files_before}, {"wanted", kFewFiles}});
  } else {
    log_info("files that may be open", {{"files", now}, {"soft_limit_before", g_files_before}});
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
