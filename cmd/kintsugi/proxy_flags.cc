#include "cmd/kintsugi/proxy_flags.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/strings.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/kcp_flags.h"
#include "proxy/routing/mapping.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr std::string_view kUsage = "kintsugi proxy [--config FILE] [options of kcp-front-proxy]";
constexpr std::string_view kDescription =
    "Runs the front proxy: learns the shards and their logical clusters, forwards requests to the "
    "owner\nshard, serves APIExportEndpointSlice, Partition and PartitionSet itself. Takes the "
    "command line and the\nmapping file of kcp-front-proxy as they are (docs/kcp-front-proxy.md); "
    "of both, a flag wins over --config.";

Expected<void> take_level(std::string_view value, std::string& level) {
  for (const std::string_view known : {"error", "warn", "info", "debug"}) {
    if (value == known) {
      level = value;
      return {};
    }
  }
  return fail(Errc::kConfig, "\"" + std::string(value) + "\" is none of error, warn, info, debug");
}

std::vector<Flag> flag_table(ProxyCommandLine& line) {
  std::vector<Flag> flags = {
      {"config", "FILE", "", "configuration, kind ProxyConfiguration (docs/configuration.md)",
       into(line.config)},
      {"validate", "", "", "check the configuration and exit", into(line.validate)},
      {"version", "", "", "print the version and exit", into(line.version)},
      {"log-level", "LEVEL", "info", "error, warn, info or debug",
       [&line](std::string_view value) { return take_level(value, line.log_level); }},
  };
  for (const KcpFlag& flag : kcp_flags()) {
    flags.push_back({std::string(flag.name), std::string(flag.argument),
                     std::string(flag.default_text), std::string(flag.help),
                     [&flag, &line](std::string_view value) {
                       return take_kcp_flag(flag, value, line.flags[std::string(flag.name)]);
                     }});
  }
  return flags;
}

/// `-v 4`, `-v=4`: the only short one.
std::vector<std::string> with_long_names(const std::vector<std::string>& arguments) {
  std::vector<std::string> out = arguments;
  for (std::string& argument : out) {
    if (argument == "--") {
      break;
    }
    if (argument == "-v" || argument.starts_with("-v=")) {
      argument.insert(0, "-");
    }
  }
  return out;
}

}  // namespace

Expected<ProxyCommandLine> parse_proxy_command_line(const std::vector<std::string>& arguments) {
  ProxyCommandLine line;
  const std::vector<Flag> flags = flag_table(line);
  auto parsed = parse_flags(flags, with_long_names(arguments), [&line](const std::string& name) {
    line.warnings.push_back("--" + name + " is not known and has no effect");
  });
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  if (!parsed->positional.empty()) {
    return fail(Errc::kConfig, "unexpected argument \"" + parsed->positional.front() + "\"");
  }
  line.help = parsed->help;
  if (!line.config.empty()) {
    line.config = server::absolute_path(line.config);
  }
  for (std::string& warning : kcp_flag_warnings(line.flags)) {
    line.warnings.push_back(std::move(warning));
  }
  if (const auto found = line.flags.find("v"); found != line.flags.end()) {
    line.log_level =
        parse_decimal<std::uint32_t>(found->second.back()).value_or(0) >= 4 ? "debug" : "info";
  }
  return line;
}

std::string proxy_help_text() {
  ProxyCommandLine line;
  return help_text(kUsage, kDescription, flag_table(line));
}

Expected<server::LoadedProxyConfig> load_proxy_config(const ProxyCommandLine& line) {
  const bool is_kcp = !line.flags.empty();
  server::LoadedProxyConfig loaded;
  loaded.path = line.config;
  loaded.text = "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n";
  if (!line.config.empty()) {
    auto text = server::read_file(line.config);
    if (!text) {
      return fail(std::move(text.error()).at("--config"));
    }
    loaded.text = std::move(*text);
  } else if (auto complete = judge_kcp_flags(line.flags); !complete) {
    return fail(std::move(complete.error()));
  }
  const proxy::AmendConfig amend = [&](proxy::ProxyConfig& config) -> Expected<void> {
    if (is_kcp) {
      if (auto result = apply_kcp_flags(line.flags, line.config.empty(), config); !result) {
        return result;
      }
    }
    return apply_mapping(is_kcp, config);
  };
  auto config = proxy::parse_proxy_config(
      loaded.text, line.config.empty() ? "command line" : line.config, amend);
  if (!config) {
    return fail(std::move(config.error()));
  }
  loaded.config = std::move(*config);
  return loaded;
}

}  // namespace kintsugi::cmd
