#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/last_resort.h"
#include "base/log.h"
#include "base/version.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/proxy_flags.h"
#include "net/inherited_sockets.h"
#include "net/port_claim.h"
#include "proxy/config/config.h"
#include "server/config_check.h"
#include "server/deep_check.h"
#include "server/proxy_control.h"

namespace kintsugi::cmd {
namespace {

/// A line for each fault. What a flag of kcp says has kcp's status.
int complain_of_config(const ProxyCommandLine& line, const ConfigFault& fault) {
  const bool looks = !line.validate.empty();
  std::string text(fault.error.message());
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    text.insert(at + 1, looks ? "error: " : "kintsugi proxy: ");
  }
  std::fprintf(stderr, "%s%s\n", looks ? "error: " : "kintsugi proxy: ", text.c_str());
  return fault.of_command_line ? 1 : 2;
}

/// --validate, --print-effective.
int look(const ProxyCommandLine& line, const server::LoadedProxyConfig& loaded) {
  const std::string name = loaded.path.empty() ? "command line" : loaded.path;
  if (!line.print_effective.empty()) {
    const std::string text =
        krm::effective_config(line.print_effective, "ProxyConfiguration",
                              proxy::shown_config(loaded.config, loaded.origin), loaded.path);
    std::fputs(text.c_str(), stdout);
  }
  if (line.validate == "syntax") {
    std::printf("%s: ok\n", name.c_str());
  } else if (!line.validate.empty()) {
    server::ConfigCheck check = server::check_files(loaded, std::time(nullptr));
    if (line.validate == "deep" && !check.has_error()) {
      check = server::joined(std::move(check), server::check_peers(loaded));
    }
    std::fputs(server::report_text(check, name).c_str(), stdout);
    return check.has_error() ? 1 : 0;
  }
  return 0;
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
  const bool only_looks = !line->validate.empty() || !line->print_effective.empty();
  if (auto written =
          use(only_looks ? LogOptions{line->log.level, line->log.format, ""} : line->log);
      !written) {
    return complain("proxy", written.error());
  }
  for (const std::string& warning : line->warnings) {
    log_warn(warning);
  }
  if (!only_looks) {
    prepare_for_no_memory();
    if (auto confined = server::confine(line->confinement); !confined) {
      return complain("proxy", confined.error());
    }
  }
  const auto sharing = line->flags.find("permit-port-sharing");
  if (sharing != line->flags.end() && sharing->second.back() == "true") {
    net::permit_port_sharing();
  }
  auto loaded = load_proxy_config(*line);
  if (!loaded) {
    return complain_of_config(*line, loaded.error());
  }
  if (only_looks) {
    return look(*line, *loaded);
  }
  auto sockets = net::take_inherited_sockets();
  if (!sockets) {
    return complain("proxy", sockets.error());
  }
  if (auto helped = server::help_with_plugins(loaded->config); !helped) {
    return complain("proxy", helped.error());
  }
  const auto load_again = [line = *line] {
    return load_proxy_config(line).map_error(
        [](ConfigFault&& fault) { return std::move(fault.error); });
  };
  auto control = server::ProxyControl::make(load_again, std::move(*loaded), *sockets);
  if (!control) {
    return complain("proxy", control.error());
  }
  if (auto inside = server::enter_sandbox(line->confinement); !inside) {
    return complain("proxy", inside.error());
  }
  return (*control)->run();
}

}  // namespace

int run_proxy(const std::vector<std::string>& arguments) { return run(arguments, false); }
int run_front_proxy(const std::vector<std::string>& arguments) { return run(arguments, true); }

}  // namespace kintsugi::cmd
