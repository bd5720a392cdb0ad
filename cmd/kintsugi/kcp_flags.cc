#include "cmd/kintsugi/kcp_flags.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/strings.h"
#include "net/x509_maker.h"
#include "proxy/gates/cors.h"
#include "proxy/routing/mapping.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

using proxy::ProxyConfig;
using Values = std::vector<std::string>;

constexpr std::string_view kDefaultRoot = ".kcp";
constexpr int kSelfSignedDays = 365;

constexpr std::string_view kKnownGates[] = {"WorkspaceAuthentication",
                                            "WorkspaceMounts",
                                            "CacheAPIs",
                                            "LogicalClusterMigration",
                                            "EnableDeprecatedAPIExportVirtualWorkspacesUrls",
                                            "APIResponseCompression",
                                            "ListFromCacheSnapshot",
                                            "StreamingCollectionEncodingToJSON",
                                            "StreamingCollectionEncodingToProtobuf",
                                            "WatchList",
                                            "ConsistentListFromCache",
                                            "LoggingBetaOptions",
                                            "ContextualLogging",
                                            "StorageVersionAPI",
                                            "OpenAPIEnums",
                                            "AllAlpha",
                                            "AllBeta"};

/// What a flag changes. Those that are only accepted have none.
struct Effect {
  std::string_view name;
  std::function<Expected<void>(const Values&, ProxyConfig&)> apply;
};

Effect file_into(std::string_view name, std::function<std::string&(ProxyConfig&)> target) {
  return {name, [target = std::move(target)](const Values& values, ProxyConfig& config) {
            target(config) = values.back().empty() ? "" : server::absolute_path(values.back());
            auto text = values.back().empty() ? Expected<std::string>("")
                                              : server::read_file(target(config));
            return text ? Expected<void>() : Expected<void>(fail(std::move(text.error())));
          }};
}

Effect text_into(std::string_view name, std::function<std::string&(ProxyConfig&)> target) {
  return {name, [target = std::move(target)](const Values& values, ProxyConfig& config) {
            target(config) = values.back();
            return Expected<void>();
          }};
}

Effect list_into(std::string_view name, std::function<Values&(ProxyConfig&)> target) {
  return {name, [target = std::move(target)](const Values& values, ProxyConfig& config) {
            target(config) = values;
            return Expected<void>();
          }};
}

/// Names of headers: none given leaves the usual ones.
Effect names_into(std::string_view name, std::function<Values&(ProxyConfig&)> target) {
  return {name, [target = std::move(target)](const Values& values, ProxyConfig& config) {
            if (!values.empty()) {
              target(config) = values;
            }
            return Expected<void>();
          }};
}

Expected<void> take_port(const Values& values, ProxyConfig& config) {
  const auto port = parse_decimal<std::uint16_t>(values.back());
  if (!port || *port == 0) {
    return fail(Errc::kConfig, "\"" + values.back() + "\" is not a port from 1 to 65535");
  }
  config.listener.port = *port;
  return {};
}

/// All addresses of both families, where the machine has both.
std::string every_address() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) {
    return "0.0.0.0";
  }
  ::close(probe);
  return "::";
}

Expected<void> take_address(const Values& values, ProxyConfig& config) {
  const std::string& text = values.back();
  config.listener.address =
      text.empty() || text == "0.0.0.0" || text == "::" ? every_address() : text;
  return {};
}

Expected<void> take_streams(const Values& values, ProxyConfig& config) {
  const std::uint32_t most = parse_decimal<std::uint32_t>(values.back()).value_or(0);
  config.listener.max_streams = most == 0 ? 100 : std::min(most, 10'000U);
  return {};
}

Expected<void> take_origins(const Values& values, ProxyConfig& config) {
  for (const std::string& origin : values) {
    if (!proxy::is_origin_pattern(origin)) {
      return fail(Errc::kConfig, "\"" + origin + "\" is not a regular expression");
    }
  }
  config.cors_origins = values;
  return {};
}

/// `cert,key[:pattern,…]`
Expected<void> take_sni(const Values& values, ProxyConfig& config) {
  for (const std::string& value : values) {
    const std::string_view text = value;
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto files = split(text.substr(0, colon), ',');
    if (files.size() != 2 || files[0].empty() || files[1].empty()) {
      return fail(Errc::kConfig, "\"" + value + "\" is not cert,key[:pattern,...]");
    }
    net::SniPair pair{server::absolute_path(std::string(files[0])),
                      server::absolute_path(std::string(files[1])),
                      {}};
    if (colon < text.size()) {
      for (const std::string_view name : split(text.substr(colon + 1), ',')) {
        pair.names.emplace_back(name);
      }
    }
    config.listener.tls.sni.push_back(std::move(pair));
  }
  return {};
}

/// `key=value`, once for each key.
Expected<void> take_required_claims(const Values& values, ProxyConfig& config) {
  auto& claims = config.authentication.oidc.required_claims;
  claims.clear();
  for (const std::string& value : values) {
    const std::size_t equals = value.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Errc::kConfig, "\"" + value + "\" is not key=value");
    }
    const std::string key = value.substr(0, equals);
    std::erase_if(claims, [&](const auto& claim) { return claim.first == key; });
    claims.emplace_back(key, value.substr(equals + 1));
  }
  return {};
}

Expected<void> take_gates(const Values& values, ProxyConfig& config) {
  for (const std::string& value : values) {
    if (value.starts_with("WorkspaceAuthentication=")) {
      config.authentication.workspaces = value.ends_with("=true");
    }
  }
  return {};
}

/// The profiler is the admin listener. It has no authentication, so it stays on this machine.
Expected<void> take_profiler(const Values& values, ProxyConfig& config) {
  const std::string& text = values.back();
  if (text.empty()) {
    return {};
  }
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!parse_decimal<std::uint16_t>(port)) {
    return fail(Errc::kConfig, "\"" + text + "\" is not [address]:port");
  }
  config.admin.bind = (text.starts_with("[::1]") ? "::1:" : "127.0.0.1:") + port;
  return {};
}

Effect number_into(std::string_view name, std::function<std::uint32_t&(ProxyConfig&)> target) {
  return {name, [target = std::move(target)](const Values& values, ProxyConfig& config) {
            target(config) = parse_decimal<std::uint32_t>(values.back()).value_or(0);
            return Expected<void>();
          }};
}

Expected<void> take_audit_log(const Values& values, ProxyConfig& config) {
  const std::string& text = values.back();
  config.audit.log_file = text.empty()  ? ""
                          : text == "-" ? "/dev/stdout"
                                        : server::absolute_path(text);
  return {};
}

/// 0 is what the library behind Kubernetes' flag makes of it.
Expected<void> take_audit_size(const Values& values, ProxyConfig& config) {
  const std::uint32_t size = parse_decimal<std::uint32_t>(values.back()).value_or(0);
  config.audit.max_size_mb = size == 0 ? proxy::AuditConfig().max_size_mb : size;
  return {};
}

Expected<void> take_audit_format(const Values& values, ProxyConfig& /*config*/) {
  if (values.back() != "json") {
    return fail(Errc::kConfig, "\"" + values.back() + "\" is not json");
  }
  return {};
}

const std::vector<Effect>& effects() {
  static const std::vector<Effect> table = {
      file_into("mapping-file", [](ProxyConfig& c) -> std::string& { return c.mapping_file; }),
      file_into("shards-kubeconfig",
                [](ProxyConfig& c) -> std::string& { return c.topology.shards_kubeconfig; }),
      file_into("root-kubeconfig",
                [](ProxyConfig& c) -> std::string& { return c.topology.root_kubeconfig; }),
      {"shard-peer-kubeconfig",
       [](const Values& values, ProxyConfig& config) -> Expected<void> {
         config.topology.peer_kubeconfigs.clear();
         for (const std::string& file : values) {
           const std::string path = server::absolute_path(file);
           if (auto text = server::read_file(path); !text) {
             return fail(std::move(text.error()));
           }
           config.topology.peer_kubeconfigs.push_back(path);
         }
         return {};
       }},
      {"profiler-address", take_profiler},
      {"cors-allowed-origins", take_origins},
      {"bind-address", take_address},
      {"secure-port", take_port},
      file_into("tls-cert-file",
                [](ProxyConfig& c) -> std::string& { return c.listener.cert_file; }),
      file_into("tls-private-key-file",
                [](ProxyConfig& c) -> std::string& { return c.listener.key_file; }),
      {"tls-sni-cert-key", take_sni},
      {"tls-min-version",
       [](const Values& values, ProxyConfig& config) {
         config.listener.tls.min_version = values.back();
         return Expected<void>();
       }},
      list_into("tls-cipher-suites",
                [](ProxyConfig& c) -> Values& { return c.listener.tls.cipher_suites; }),
      list_into("tls-curve-preferences",
                [](ProxyConfig& c) -> Values& { return c.listener.tls.curves; }),
      {"disable-http2-serving",
       [](const Values& values, ProxyConfig& config) {
         config.listener.http2 = values.back() != "true";
         return Expected<void>();
       }},
      {"http2-max-streams-per-connection", take_streams},
      file_into("client-ca-file",
                [](ProxyConfig& c) -> std::string& { return c.authentication.client_ca_file; }),
      file_into("requestheader-client-ca-file",
                [](ProxyConfig& c) -> std::string& {
                  return c.authentication.request_header.client_ca_file;
                }),
      file_into("client-crl-file",
                [](ProxyConfig& c) -> std::string& { return c.authentication.client_crl_file; }),
      file_into("requestheader-client-crl-file",
                [](ProxyConfig& c) -> std::string& {
                  return c.authentication.request_header.client_crl_file;
                }),
      file_into("backend-crl-file",
                [](ProxyConfig& c) -> std::string& { return c.backend.crl_file; }),
      {"crl-stale",
       [](const Values& values, ProxyConfig& config) -> Expected<void> {
         if (values.back() != "refuse" && values.back() != "warn") {
           return fail(Errc::kConfig, "\"" + values.back() + "\" is neither refuse nor warn");
         }
         config.crl.stale_is_refused = values.back() == "refuse";
         return {};
       }},
      {"crl-required",
       [](const Values& values, ProxyConfig& config) {
         config.crl.is_required = values.back() == "true";
         return Expected<void>();
       }},
      list_into("requestheader-allowed-names",
                [](ProxyConfig& c) -> Values& {
                  return c.authentication.request_header.names.allowed_names;
                }),
      names_into("requestheader-username-headers",
                 [](ProxyConfig& c) -> Values& {
                   return c.authentication.request_header.names.user_headers;
                 }),
      names_into("requestheader-group-headers",
                 [](ProxyConfig& c) -> Values& {
                   return c.authentication.request_header.names.group_headers;
                 }),
      names_into("requestheader-uid-headers",
                 [](ProxyConfig& c) -> Values& {
                   return c.authentication.request_header.names.uid_headers;
                 }),
      names_into("requestheader-extra-headers-prefix",
                 [](ProxyConfig& c) -> Values& {
                   return c.authentication.request_header.names.extra_prefixes;
                 }),
      file_into("token-auth-file",
                [](ProxyConfig& c) -> std::string& { return c.authentication.token_file; }),
      text_into("oidc-issuer-url",
                [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.issuer_url; }),
      text_into("oidc-client-id",
                [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.client_id; }),
      file_into("oidc-ca-file",
                [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.ca_file; }),
      text_into(
          "oidc-username-claim",
          [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.username_claim; }),
      text_into(
          "oidc-username-prefix",
          [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.username_prefix; }),
      text_into("oidc-groups-claim",
                [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.groups_claim; }),
      text_into("oidc-groups-prefix",
                [](ProxyConfig& c) -> std::string& { return c.authentication.oidc.groups_prefix; }),
      {"oidc-required-claim", take_required_claims},
      names_into("oidc-signing-algs",
                 [](ProxyConfig& c) -> Values& { return c.authentication.oidc.signing_algs; }),
      file_into("authentication-config",
                [](ProxyConfig& c) -> std::string& { return c.authentication.config_file; }),
      {"feature-gates", take_gates},
      file_into("authentication-token-webhook-config-file",
                [](ProxyConfig& c) -> std::string& { return c.authentication.webhook.kubeconfig; }),
      {"authentication-token-webhook-version",
       [](const Values& values, ProxyConfig& config) -> Expected<void> {
         if (values.back() != "v1" && values.back() != "v1beta1") {
           return fail(Errc::kConfig, "\"" + values.back() + "\" is neither v1 nor v1beta1");
         }
         config.authentication.webhook.version = values.back();
         return {};
       }},
      {"authentication-token-webhook-cache-ttl",
       [](const Values& values, ProxyConfig& config) {
         config.authentication.webhook.cache =
             parse_go_duration(values.back()).value_or(config.authentication.webhook.cache);
         return Expected<void>();
       }},
      {"service-account-key-file",
       [](const Values& values, ProxyConfig& config) {
         Values& files = config.authentication.service_accounts.key_files;
         files.clear();
         for (const std::string& file : values) {
           files.push_back(server::absolute_path(file));
         }
         return Expected<void>();
       }},
      names_into(
          "service-account-issuer",
          [](ProxyConfig& c) -> Values& { return c.authentication.service_accounts.issuers; }),
      list_into(
          "api-audiences",
          [](ProxyConfig& c) -> Values& { return c.authentication.service_accounts.audiences; }),
      {"service-account-lookup",
       [](const Values& values, ProxyConfig& config) {
         config.authentication.service_accounts.lookup = values.back() == "true";
         return Expected<void>();
       }},
      list_into("authentication-pass-on-groups",
                [](ProxyConfig& c) -> Values& { return c.authentication.pass_groups; }),
      list_into("authentication-drop-groups",
                [](ProxyConfig& c) -> Values& { return c.authentication.drop_groups; }),
      file_into("audit-policy-file",
                [](ProxyConfig& c) -> std::string& { return c.audit.policy_file; }),
      {"audit-log-path", take_audit_log},
      file_into("audit-webhook-config-file",
                [](ProxyConfig& c) -> std::string& { return c.audit.webhook_kubeconfig; }),
      {"audit-log-maxsize", take_audit_size},
      number_into("audit-log-maxbackup",
                  [](ProxyConfig& c) -> std::uint32_t& { return c.audit.max_backups; }),
      number_into("audit-log-maxage",
                  [](ProxyConfig& c) -> std::uint32_t& { return c.audit.max_age_days; }),
      {"audit-log-format", take_audit_format},
  };
  return table;
}

std::string value_of(const KcpFlagValues& values, const char* name, std::string_view fallback) {
  const auto found = values.find(name);
  return found != values.end() && !found->second.empty() ? found->second.back()
                                                         : std::string(fallback);
}

/// The self-signed pair of kcp, made when it is not there.
Expected<void> ensure_serving_pair(const KcpFlagValues& values, const std::string& root,
                                   ProxyConfig& config) {
  std::string folder = value_of(values, "cert-dir", "");
  folder = folder.empty() ? root : folder.front() == '/' ? folder : root + "/" + folder;
  config.listener.cert_file = folder + "/apiserver.crt";
  config.listener.key_file = folder + "/apiserver.key";
  if (server::file_exists(config.listener.cert_file) &&
      server::file_exists(config.listener.key_file)) {
    return {};
  }
  const char* const flag =
      value_of(values, "cert-dir", "").empty() ? "--root-directory" : "--cert-dir";
  if (auto made = server::make_directories(folder); !made) {
    return fail(std::move(made.error()).at(flag));
  }
  auto authority = net::make_ca("localhost-ca", kSelfSignedDays);
  if (!authority) {
    return fail(std::move(authority.error()));
  }
  net::CertificateRequest request;
  request.common_name = "localhost";
  request.dns_names = {"localhost", "kubernetes.default.svc", "kubernetes.default", "kubernetes"};
  request.ip_addresses = {"127.0.0.1"};
  request.days = kSelfSignedDays;
  request.server = true;
  auto pair = net::issue(*authority, request);
  if (!pair) {
    return fail(std::move(pair.error()));
  }
  if (auto result = server::write_file(config.listener.key_file, pair->key_pem.view(), 0600);
      !result) {
    return fail(std::move(result.error()).at(flag));
  }
  return server::write_file(config.listener.cert_file,
                            pair->certificate_pem + authority->certificate_pem);
}

}  // namespace

Expected<void> take_kcp_flag(const KcpFlag& flag, std::string_view value, Values& values) {
  const auto wrong = [&](const char* what) {
    return fail(Errc::kConfig, "\"" + std::string(value) + "\" is not " + what);
  };
  switch (flag.type) {
    case KcpFlag::Type::kSwitch:
      if (value != "true" && value != "false") {
        return fail(Errc::kConfig, "\"" + std::string(value) + "\" is neither true nor false");
      }
      break;
    case KcpFlag::Type::kNumber:
      if (!parse_decimal<std::uint32_t>(value)) {
        return wrong("a number");
      }
      break;
    case KcpFlag::Type::kDuration:
      if (!parse_go_duration(value)) {
        return wrong("a duration");
      }
      break;
    case KcpFlag::Type::kList:
      for (const std::string_view part : split(value, ',')) {
        if (!part.empty()) {
          values.emplace_back(part);
        }
      }
      return {};
    case KcpFlag::Type::kText:
      break;
    case KcpFlag::Type::kRepeated:
      values.emplace_back(value);
      return {};
  }
  values = {std::string(value)};
  return {};
}

std::vector<std::string> kcp_flag_warnings(const KcpFlagValues& values) {
  std::vector<std::string> lines;
  if (const auto gates = values.find("feature-gates"); gates != values.end()) {
    for (const std::string& gate : gates->second) {
      const std::string name = gate.substr(0, gate.find('='));
      if (std::find(std::begin(kKnownGates), std::end(kKnownGates), name) ==
          std::end(kKnownGates)) {
        lines.push_back("--feature-gates: " + name + " is not known and has no effect");
      }
    }
  }
  const std::string profiler = value_of(values, "profiler-address", "");
  const std::string host = profiler.substr(0, std::min(profiler.rfind(':'), profiler.size()));
  if (!profiler.empty() && host != "127.0.0.1" && host != "localhost" && host != "[::1]") {
    lines.push_back("--profiler-address: " + profiler +
                    " would show it to everybody, it listens on 127.0.0.1");
  }
  return lines;
}

Expected<void> judge_kcp_flags(const KcpFlagValues& values) {
  std::string missing;
  const bool has_shards = !value_of(values, "shards-kubeconfig", "").empty();
  for (const char* name : {"mapping-file", "shards-kubeconfig", "root-kubeconfig"}) {
    const bool needed = std::string_view(name) != "mapping-file" || !has_shards;
    if (needed && value_of(values, name, "").empty()) {
      missing += std::string(missing.empty() ? "" : ", ") + "--" + name;
    }
  }
  if (!missing.empty()) {
    return fail(Errc::kConfig, missing + ": required (or --config)");
  }
  const bool has_cert = !value_of(values, "tls-cert-file", "").empty();
  if (has_cert != !value_of(values, "tls-private-key-file", "").empty()) {
    return fail(Errc::kConfig,
                std::string(has_cert ? "--tls-private-key-file" : "--tls-cert-file") +
                    ": required with the other one of the pair");
  }
  return {};
}

Expected<void> apply_kcp_flags(const KcpFlagValues& values, bool alone, ProxyConfig& config) {
  config.kcp_command_line = true;
  const std::string root = server::absolute_path(value_of(values, "root-directory", kDefaultRoot));
  if (alone) {
    config.listener.address = every_address();
    config.listener.port = 443;
    config.listener.max_streams = 100;
    config.data_dir = root + "/kintsugi-proxy";
    config.endpoint_slice.consumers = endpointslice::Consumers::kRequired;
    // Objects stay where kcp has them; to store them here is a choice in --config (FP-159).
    config.topology.groups = {proxy::GroupMode::kAuto, proxy::GroupMode::kAuto};
    config.authentication.webhook.version = "v1beta1";
  }
  for (const Effect& effect : effects()) {
    const auto given = values.find(std::string(effect.name));
    if (given == values.end()) {
      continue;
    }
    if (auto result = effect.apply(given->second, config); !result) {
      return fail(std::move(result.error()).at("--" + std::string(effect.name)));
    }
  }
  return config.listener.cert_file.empty() ? ensure_serving_pair(values, root, config)
                                           : Expected<void>();
}

Expected<void> apply_mapping(bool is_kcp, ProxyConfig& config) {
  std::vector<proxy::MappingEntry> entries;
  if (!config.mapping_file.empty()) {
    auto text = server::read_file(config.mapping_file);
    if (!text) {
      return fail(std::move(text.error()).at(is_kcp ? "--mapping-file" : "mapping_file"));
    }
    auto parsed = proxy::parse_mapping(*text, config.mapping_file);
    if (!parsed) {
      return fail(std::move(parsed.error()).at(is_kcp ? "--mapping-file" : "mapping_file"));
    }
    entries = std::move(*parsed);
  }
  const auto clusters = std::find_if(entries.begin(), entries.end(),
                                     [](const auto& entry) { return entry.is_clusters(); });
  if (clusters != entries.end() && (is_kcp || config.backend.cert_file.empty())) {
    config.backend.ca_file = server::absolute_path(clusters->ca_file);
    config.backend.cert_file = server::absolute_path(clusters->cert_file);
    config.backend.key_file = server::absolute_path(clusters->key_file);
  }
  if (!is_kcp) {
    return {};
  }
  config.clusters = clusters != entries.end() || entries.empty();
  if (config.backend.cert_file.empty()) {
    config.backend.kubeconfig = config.topology.shards_kubeconfig;
  }
  return {};
}

std::optional<Duration> parse_go_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double milliseconds;
  };
  // Longer names first: "m" is the start of "ms".
  constexpr Unit kUnits[] = {{"ms", 1},    {"us", 1e-3}, {"ns", 1e-6},
                             {"h", 3.6e6}, {"m", 6e4},   {"s", 1e3}};
  if (text == "0") {
    return Duration::zero();
  }
  double total = 0;
  if (text.empty() || text.size() > 64) {
    return std::nullopt;
  }
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::string number(text.substr(0, digits));
    char* end = nullptr;
    const double amount = std::strtod(number.c_str(), &end);
    text.remove_prefix(digits);
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                          [&](const Unit& u) { return text.starts_with(u.name); });
    if (number.empty() || *end != '\0' || unit == std::end(kUnits) || amount > 1e9) {
      return std::nullopt;
    }
    total += amount * unit->milliseconds;
    text.remove_prefix(unit->name.size());
  }
  return total > 1e12 ? std::nullopt
                      : std::optional(milliseconds(static_cast<std::int64_t>(std::llround(total))));
}

}  // namespace kintsugi::cmd
