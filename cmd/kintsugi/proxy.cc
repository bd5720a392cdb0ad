#include <cstdio>
#include <string>
#include <vector>

#include "base/last_resort.h"
#include "base/log.h"
#include "base/version.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/proxy_flags.h"
#include "net/port_claim.h"
#include "server/proxy_control.h"

namespace kintsugi::cmd {
namespace {

LogLevel level_of(std::string_view name) {
  return name == "error"   ? LogLevel::kError
         : name == "warn"  ? LogLevel::kWarn
         : name == "debug" ? LogLevel::kDebug
                           : LogLevel::kInfo;
}

int run(const std::vector<std::string>& arguments, bool as_kcp) {
  auto line = parse_proxy_command_line(arguments, as_kcp);
  if (!line) {
    return wrong_usage("proxy", std::string(line.error().message()), 1);
  }
  if (line->help) {
    std::fputs(help_text(proxy_about()).c_str(), stdout);
    return 0;
  }
  if (line->version) {
    if (!as_kcp) {
      return run_version({});
    }
    std::printf("kcp-front-proxy version %s\n", product_version());
    return 0;
  }
  set_log_level(level_of(line->log_level));
  for (const std::string& warning : line->warnings) {
    log_warn(warning);
  }
  if (!line->validate) {
    prepare_for_no_memory();
    if (auto confined = server::confine(line->confinement); !confined) {
      return complain("proxy", std::string(confined.error().message()));
    }
  }
  const auto sharing = line->flags.find("permit-port-sharing");
  if (sharing != line->flags.end() && sharing->second.back() == "true") {
    net::permit_port_sharing();
  }
  auto loaded = load_proxy_config(*line);
  if (!loaded) {
    return complain("proxy", std::string(loaded.error().message()));
  }
  if (line->validate) {
    std::printf("%s: ok\n", loaded->path.empty() ? "command line" : loaded->path.c_str());
    return 0;
  }
  if (auto helped = server::help_with_plugins(loaded->config); !helped) {
    return complain("proxy", std::string(helped.error().message()));
  }
  auto control = server::ProxyControl::make([line = *line] { return load_proxy_config(line); },
                                            std::move(*loaded));
  if (!control) {
    return complain("proxy", std::string(control.error().message()));
  }
  if (auto inside = server::enter_sandbox(line->confinement); !inside) {
    return complain("proxy", std::string(inside.error().message()));
  }
  return (*control)->run();
}

}  // namespace

int run_proxy(const std::vector<std::string>& arguments) { return run(arguments, false); }
int run_front_proxy(const std::vector<std::string>& arguments) { return run(arguments, true); }

}  // namespace kintsugi::cmd
