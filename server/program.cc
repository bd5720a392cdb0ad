#include "server/program.h"

#include <sys/resource.h>

#include <cstdio>

namespace kintsugi::server {

int complain(const std::string& command, const std::string& text, int status) {
  std::fprintf(stderr, "kintsugi %s: %s\n", command.c_str(), text.c_str());
  return status;
}

void raise_descriptor_limit() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // else it stays as it is, and so do the limits
  }
}

}  // namespace kintsugi::server
