#include "server/program.h"

#include <cstdio>

namespace kintsugi::server {

const char* version() { return KINTSUGI_VERSION; }

int complain(const std::string& command, const std::string& text, int status) {
  std::fprintf(stderr, "kintsugi %s: %s\n", command.c_str(), text.c_str());
  return status;
}

}  // namespace kintsugi::server
