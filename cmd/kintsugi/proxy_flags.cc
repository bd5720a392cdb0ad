#include "cmd/kintsugi/proxy_flags.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/secret_file.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/confinement_flags.h"
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
    "command line and the\nmapping file of kcp-front-proxy as they are (docs/kcp.md); "
    "of both, a flag wins over --config.";

FlagTable flag_table(ProxyCommandLine& line) {
  FlagTable table = {
      {"Kintsugi",
       {{"config", "FILE", "", "configuration, kind ProxyConfiguration (docs/configuration.md)",
         into(line.config)},
        {"validate", "", "",
         "check the configuration and the files that it names, tell everything that is wrong, and "
         "exit; --validate=syntax: without the files; --validate=deep: and ask the servers that it "
         "names",
         [&line](std::string_view value) {
           return take_choice(value, {"true", "files", "syntax", "deep"}, line.validate);
         }},
        {"print-effective", "", "",
         "print every key with its value and where that is from, and exit; --print-effective=json: "
         "as JSON",
         [&line](std::string_view value) {
           return take_choice(value, {"true", "yaml", "json"}, line.print_effective);
         }},
        {"insecure-file-modes", "", "",
         "keys, tokens and kubeconfigs that others may read end the start; with this they are "
         "warnings",
         into(line.insecure_file_modes)},
        {"version", "", "", "print the version and exit", into(line.version)}}},
      log_flags(line.log),
      confinement_flags(line.confinement),
      store_flags(line.store, "proxy", "/kintsugi/proxy"),
  };
  for (const KcpFlag& flag : kcp_flags()) {
    if (table.back().title != flag.group) {
      table.push_back({std::string(flag.group), {}});
    }
    table.back().flags.push_back(
        {std::string(flag.name), std::string(flag.argument), std::string(flag.default_text),
         std::string(flag.help), [&flag, &line](std::string_view value) {
           return take_kcp_flag(flag, value, line.flags[std::string(flag.name)]);
         }});
  }
  return table;
}

/// What becomes of names that nobody knows: a fault, or warnings.
Expected<void> judge_unknown(const std::vector<std::string>& names, const FlagTable& table,
                             bool as_kcp, ProxyCommandLine& line) {
  const bool is_kcp = as_kcp || (line.config.empty() && !line.flags.empty());
  for (const std::string& name : names) {
    if (!is_kcp || name.starts_with('-') || !nearest_flag(name, table).empty()) {
      return fail(Errc::kConfig, unknown_flag_text(name, table));
    }
    line.warnings.push_back("--" + name + " is not known and has no effect");
  }
  return {};
}

/// --store says all of it: what the file says of the store does not count any more.
Expected<void> take_store(const StoreFlags& flags, proxy::StoreConfig& store) {
  auto params = understood_store(flags);
  if (!params) {
    return fail(std::move(params.error()));
  }
  if (flags.store.empty()) {
    return {};
  }
  proxy::StoreConfig said;
  said.is_etcd = !params->endpoints.empty();
  said.endpoints = std::move(params->endpoints);
  if (!params->prefix.empty()) {
    said.prefix = std::move(params->prefix);
  }
  said.ca_file = std::move(params->ca_file);
  said.cert_file = std::move(params->cert_file);
  said.key_file = std::move(params->key_file);
  said.user = std::move(params->user);
  said.password_file =
      flags.password_file.empty() ? "" : server::absolute_path(flags.password_file);
  said.insecure = params->insecure;
  said.compacts = params->compacts;
  store = std::move(said);
  return {};
}

}  // namespace

CommandAbout proxy_about() {
  ProxyCommandLine line;
  return {std::string(kUsage), std::string(kDescription), {}, without_setters(flag_table(line))};
}

Expected<ProxyCommandLine> parse_proxy_command_line(const std::vector<std::string>& arguments,
                                                    bool as_kcp) {
  ProxyCommandLine line;
  const FlagTable table = flag_table(line);
  auto parsed = parse_flags(table, arguments, UnknownFlags::kKept);
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  line.help = parsed->help;
  if (line.help) {
    return line;
  }
  if (auto known = judge_unknown(parsed->unknown, table, as_kcp, line); !known) {
    return fail(std::move(known.error()));
  }
  if (!parsed->positional.empty()) {
    return fail(Errc::kConfig, "unexpected argument \"" + parsed->positional.front() + "\"");
  }
  if (!line.config.empty()) {
    line.config = server::absolute_path(line.config);
  }
  line.reads_environment = !as_kcp && !line.config.empty();
  if (!line.reads_environment && !krm::config_environment().empty()) {
    line.warnings.push_back("variables " + std::string(krm::kEnvironmentPrefix) +
                            "… are read with --config alone, and not by kcp-front-proxy");
  }
  for (std::string& warning : kcp_flag_warnings(line.flags)) {
    line.warnings.push_back(std::move(warning));
  }
  if (const auto found = line.flags.find("v"); found != line.flags.end()) {
    line.log.level = parse_decimal<std::uint32_t>(found->second.back()).value_or(0) >= 4
                         ? LogLevel::kDebug
                         : LogLevel::kInfo;
  }
  return line;
}

tl::expected<server::LoadedProxyConfig, ConfigFault> load_proxy_config(
    const ProxyCommandLine& line) {
  const bool is_kcp = !line.flags.empty();
  bool of_command_line = line.config.empty();
  // Where kcp-front-proxy ran, Secrets are mounted as it could read them.
  if (is_kcp || line.insecure_file_modes) {
    set_secret_file_rule(SecretFileRule::kWarn);
  }
  server::LoadedProxyConfig loaded;
  loaded.path = line.config;
  loaded.text = "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n";
  if (!line.config.empty()) {
    auto text = server::read_file(line.config);
    if (!text) {
      return tl::unexpected(ConfigFault{std::move(text.error()).at("--config"), true});
    }
    loaded.text = std::move(*text);
  } else if (auto complete = judge_kcp_flags(line.flags); !complete) {
    return tl::unexpected(ConfigFault{std::move(complete.error()), true});
  }
  const proxy::AmendConfig amend = [&](proxy::ProxyConfig& config) -> Expected<void> {
    auto result =
        is_kcp ? apply_kcp_flags(line.flags, line.config.empty(), config) : Expected<void>();
    if (result) {
      result = apply_mapping(is_kcp, config);
    }
    if (result) {
      result = take_store(line.store, config.store);
      of_command_line = of_command_line || !result;
    }
    of_command_line = of_command_line || (is_kcp && !result);
    return result;
  };
  auto config = proxy::parse_proxy_config(
      loaded.text, line.config.empty() ? "command line" : line.config, amend, &loaded.origin,
      line.reads_environment ? krm::config_environment() : krm::ConfigEnvironment());
  if (!config) {
    return tl::unexpected(ConfigFault{std::move(config.error()), of_command_line});
  }
  loaded.config = std::move(*config);
  return loaded;
}

}  // namespace kintsugi::cmd
