#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/proxy_flags.h"
#include "server/proxy_control.h"

namespace kintsugi::cmd {
namespace {

LogLevel level_of(std::string_view name) {
  return name == "error"   ? LogLevel::kError
         : name == "warn"  ? LogLevel::kWarn
         : name == "debug" ? LogLevel::kDebug
                           : LogLevel::kInfo;
}

}  // namespace

int run_proxy(const std::vector<std::string>& arguments) {
  auto line = parse_proxy_command_line(arguments);
  if (!line) {
    return complain("proxy", std::string(line.error().message()) +
                                 "; `kintsugi proxy --help` lists the options");
  }
  if (line->help) {
    std::fputs(proxy_help_text().c_str(), stdout);
    return 0;
  }
  if (line->version) {
    std::printf("kintsugi %s\n", version());
    return 0;
  }
  set_log_level(level_of(line->log_level));
  for (const std::string& warning : line->warnings) {
    log_warn(warning);
  }
  auto loaded = load_proxy_config(*line);
  if (!loaded) {
    return complain("proxy", std::string(loaded.error().message()));
  }
  if (line->validate) {
    std::printf("%s: ok\n", loaded->path.empty() ? "command line" : loaded->path.c_str());
    return 0;
  }
  auto control = server::ProxyControl::make([line = *line] { return load_proxy_config(line); },
                                            std::move(*loaded));
  if (!control) {
    return complain("proxy", std::string(control.error().message()));
  }
  return (*control)->run();
}

}  // namespace kintsugi::cmd
