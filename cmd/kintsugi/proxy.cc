#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/files.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/proxy_control.h"
#include "proxy/config.h"

namespace kintsugi::cmd {
namespace {

struct Options {
  std::string config;
  bool validate = false;
  std::string log_level = "info";
};

std::vector<Flag> flag_table(Options& options) {
  return {
      {"config", "FILE", "",
       "configuration, kind ProxyConfiguration; required (docs/configuration.md)",
       into(options.config)},
      {"validate", "", "", "check the configuration and exit", into(options.validate)},
      {"log-level", "LEVEL", "info", "error, warn, info or debug",
       [&options](std::string_view value) -> Expected<void> {
         for (const std::string_view known : {"error", "warn", "info", "debug"}) {
           if (value == known) {
             options.log_level = value;
             return {};
           }
         }
         return fail(Errc::kConfig,
                     "\"" + std::string(value) + "\" is none of error, warn, info, debug");
       }},
  };
}

LogLevel level_of(std::string_view name) {
  return name == "error"   ? LogLevel::kError
         : name == "warn"  ? LogLevel::kWarn
         : name == "debug" ? LogLevel::kDebug
                           : LogLevel::kInfo;
}

}  // namespace

int run_proxy(const std::vector<std::string>& arguments) {
  Options options;
  const std::vector<Flag> flags = flag_table(options);
  auto parsed = parse_flags(flags, arguments);
  if (!parsed) {
    return complain(
        "proxy",
        std::string(parsed.error().message()) + "; `kintsugi proxy --help` lists the options", 2);
  }
  if (parsed->help) {
    std::fputs(help_text("kintsugi proxy --config FILE",
                         "Runs the front proxy: learns the shards and their logical clusters, "
                         "forwards requests to the owner\n"
                         "shard, serves APIExportEndpointSlice, Partition and PartitionSet itself.",
                         flags)
                   .c_str(),
               stdout);
    return 0;
  }
  if (!parsed->positional.empty()) {
    return complain("proxy", "unexpected argument \"" + parsed->positional.front() + "\"", 2);
  }
  if (options.config.empty()) {
    return complain("proxy", "--config is required", 2);
  }
  set_log_level(level_of(options.log_level));
  const std::string path = absolute_path(options.config);
  auto text = read_file(path);
  if (!text) {
    return complain("proxy", "--config: " + std::string(text.error().message()));
  }
  auto config = proxy::parse_proxy_config(*text, path);
  if (!config) {
    return complain("proxy", std::string(config.error().message()));
  }
  if (options.validate) {
    std::printf("%s: ok\n", path.c_str());
    return 0;
  }
  auto control = ProxyControl::make(std::move(*config), path, *text);
  if (!control) {
    return complain("proxy", std::string(control.error().message()));
  }
  return (*control)->run();
}

}  // namespace kintsugi::cmd
