#include "cmd/kintsugi/commands.h"

#include <cstdio>

namespace kintsugi::cmd {

int complain(const std::string& command, const std::string& text, int status) {
  std::fprintf(stderr, "kintsugi %s: %s\n", command.c_str(), text.c_str());
  return status;
}

const char* version() { return KINTSUGI_VERSION; }

}  // namespace kintsugi::cmd
