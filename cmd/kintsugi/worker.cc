#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/log_flags.h"
#include "server/deep_check.h"
#include "server/files.h"
#include "server/worker_config.h"
#include "server/worker_program.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kDebug = 4;  // as kcp's commands have it

/// As typed.
struct Options {
  std::string config;
  server::WorkerOverrides overrides;
  std::string validate;         ///< "true", "files", "syntax", "deep"; "": no
  std::string print_effective;  ///< "yaml", "json"; "": no
  krm::ConfigOrigin origin;
  LogOptions log;
};

std::function<Expected<void>(std::string_view)> into_optional(std::optional<std::string>& target) {
  return [&target](std::string_view value) -> Expected<void> {
    target = std::string(value);
    return {};
  };
}

Expected<void> take_verbosity(std::string_view value, LogOptions& log) {
  std::uint32_t verbosity = 0;
  if (auto taken = into(verbosity)(value); !taken) {
    return taken;
  }
  log.level = verbosity >= kDebug ? LogLevel::kDebug : LogLevel::kInfo;
  return {};
}

std::string roles_text() {
  std::string out;
  for (const std::string& role : server::known_worker_roles()) {
    out.append(out.empty() ? "" : ", ").append(role);
  }
  return out;
}

FlagTable flag_table(Options& options) {
  server::WorkerOverrides& said = options.overrides;
  return {
      {"Configuration",
       {{"config", "FILE", "", "configuration, kind WorkerConfiguration (docs/configuration.md)",
         into(options.config)},
        {"validate", "", "",
         "check the configuration and exit; --validate=syntax: without the kubeconfig; "
         "--validate=deep: and ask the servers that it names",
         [&options](std::string_view value) {
           return take_choice(value, {"true", "files", "syntax", "deep"}, options.validate);
         }},
        {"print-effective", "", "",
         "print every key with its value and where that is from, and exit; --print-effective=json: "
         "as JSON",
         [&options](std::string_view value) {
           return take_choice(value, {"true", "yaml", "json"}, options.print_effective);
         }},
        {"v", "N", "0", "from 4 on: --log-level debug",
         [&options](std::string_view value) { return take_verbosity(value, options.log); }}}},
      log_flags(options.log),
      {"What wins over the file",
       {{"roles", "NAME,…", "",
         "which roles run; without it those that the file has. Known: " + roles_text(),
         into_optional(said.roles)},
        {"isolation", "process|thread", "",
         "process: several roles have a process each, started again when it ends; thread: all in "
         "this one",
         into_optional(said.isolation)},
        {"shards", "URL,…", "", "endpoints of every role, in the place of endpoints and server",
         into_optional(said.shards)},
        {"data-dir", "DIR", "", "journals, locks and sockets", into_optional(said.data_dir)},
        {"metrics-bind-address", "ADDRESS:PORT", "", "where /metrics is; 0: nowhere",
         into_optional(said.metrics)},
        {"health-probe-bind-address", "ADDRESS:PORT", "",
         "where /livez, /healthz and /readyz are; 0: nowhere", into_optional(said.health)},
        {"admin-socket", "PATH", "", "Unix socket where `kintsugi log-level` asks",
         into_optional(said.admin_socket)}}}};
}

/// What a process for one role is told besides its name, folder and addresses.
std::vector<std::string> child_arguments(const Options& options) {
  std::vector<std::string> out = arguments_of(options.log, options.log.file);
  out.push_back("--config=" + options.config);
  if (options.overrides.shards) {
    out.push_back("--shards=" + *options.overrides.shards);
  }
  return out;
}

/// @error kConfig, kIo: what is wrong, in one line.
Expected<server::WorkerConfig> load(Options& options) {
  const std::vector<std::string> known = server::known_worker_roles();
  if (options.overrides.roles) {  // before any file is looked at
    if (auto named = server::parse_worker_roles(*options.overrides.roles, known); !named) {
      return fail(std::move(named.error()));
    }
  }
  if (options.config.empty()) {
    return fail(Errc::kConfig, "--config: which configuration? Give its file");
  }
  options.config = server::absolute_path(options.config);
  auto text = server::read_file(options.config);
  if (!text) {
    return fail(std::move(text.error()).at("--config"));
  }
  return server::parse_worker_config(*text, options.config, known, options.overrides,
                                     &options.origin, krm::config_environment());
}

/// --validate, --print-effective.
int look(const Options& options, const server::WorkerConfig& config) {
  if (!options.validate.empty() && options.validate != "syntax") {
    if (auto right = server::check_worker(config); !right) {
      return complain("worker", right.error(), 2);
    }
  }
  if (!options.print_effective.empty()) {
    const std::string text =
        krm::effective_config(options.print_effective, "WorkerConfiguration",
                              server::shown_config(config, options.origin), options.config);
    std::fputs(text.c_str(), stdout);
  } else if (options.validate != "deep") {
    std::printf("%s: ok\n", options.config.c_str());
  }
  if (options.validate != "deep") {
    return 0;
  }
  const server::ConfigCheck check = server::check_peers(config, options.config, options.origin);
  std::fputs(server::report_text(check, options.config).c_str(), stdout);
  return check.has_error() ? 1 : 0;
}

}  // namespace

CommandAbout worker_about() {
  Options options;
  return {"kintsugi worker --config FILE [options]",
          "Runs controllers behind the proxy, one set for each shard, by the roles that they "
          "have. SIGTERM lets what\nruns end, within 25 s; SIGHUP reads the kubeconfig again.",
          {},
          without_setters(flag_table(options))};
}

int run_worker(const std::vector<std::string>& arguments) {
  Options options;
  if (const auto status = take_options("worker", flag_table(options), worker_about, arguments)) {
    return *status;
  }
  const bool only_looks = !options.validate.empty() || !options.print_effective.empty();
  if (auto written =
          use(only_looks ? LogOptions{options.log.level, options.log.format, ""} : options.log);
      !written) {
    return complain("worker", written.error());
  }
  auto config = load(options);
  if (!config) {
    return complain("worker", config.error(), 2);
  }
  if (only_looks) {
    return look(options, *config);
  }
  return server::run_worker_program({std::move(*config), child_arguments(options)});
}

}  // namespace kintsugi::cmd
