#include "topology/fleet/internal/access.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "http/wire.h"
#include "krm/named_entry.h"
#include "krm/yaml.h"
#include "net/proxy_rules.h"
#include "net/upstream.h"

namespace kintsugi::topology {

using krm::Json;

namespace {

constexpr std::string_view kReasonNames[kFleetReasons] = {"",
                                                          "NoProvider",
                                                          "BadProfile",
                                                          "BadName",
                                                          "NameTaken",
                                                          "BadServer",
                                                          "BadCertificate",
                                                          "NoSecret",
                                                          "BadKubeconfig",
                                                          "PluginFailed",
                                                          "Unauthorized",
                                                          "Unreachable",
                                                          "TooMany"};
constexpr std::string_view kBegin = "-----BEGIN ";
/// Of a text that a message shows.
constexpr std::size_t kShown = 120;

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    out += c >= ' ' && c != 0x7f ? c : '?';
  }
  return '"' + out + (text.size() > kShown ? "…\"" : "\"");
}

/// Nobody but this machine, or its neighbours, is there.
bool is_near(const net::IpBytes& ip) {
  static const std::vector<net::AddressRange> kNear = [] {
    std::vector<net::AddressRange> ranges;
    for (const std::string_view text : {"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4",
                                        "::/128", "::1/128", "fe80::/10", "ff00::/8"}) {
      if (auto range = net::AddressRange::parse(text)) {
        ranges.push_back(*range);
      }
    }
    return ranges;
  }();
  const net::IpBytes judged = net::embedded_ipv4(ip).value_or(ip);
  const auto has = [](const net::IpBytes& one) {
    return std::any_of(kNear.begin(), kNear.end(),
                       [&](const net::AddressRange& range) { return range.contains(one); });
  };
  return has(ip) || has(judged);
}

bool is_said(const Json* value) {
  return value != nullptr && !value->is_null() &&
         !(value->is_string() && value->as_string().empty()) &&
         !((value->is_array() || value->is_object()) && value->size() == 0);
}

Judged<Secret> secret_text(const Json& user, std::string_view field) {
  const std::string_view text = user.text({field});
  if (text.size() > kMaxFleetToken || !http::is_field_value(text)) {
    return fault(FleetReason::kBadKubeconfig,
                 std::string(field) + ": too long, or has characters that no header can have");
  }
  return Secret::copy_of(text);
}

Judged<void> take_certificate(const Json& user, FleetAccess& access) {
  const std::string_view certificate = user.text({"client-certificate-data"});
  const std::string_view key = user.text({"client-key-data"});
  if (certificate.empty() != key.empty()) {
    return fault(FleetReason::kBadKubeconfig, certificate.empty()
                                                  ? "client-certificate-data: missing"
                                                  : "client-key-data: missing");
  }
  if (certificate.empty()) {
    return {};
  }
  auto pem = read_fleet_certificates(certificate, "client-certificate-data");
  if (!pem) {
    return tl::unexpected<FleetFault>(std::move(pem.error()));
  }
  auto key_pem = base64_decode(key);
  if (!key_pem || key_pem->size() > kMaxFleetCertificates) {
    return fault(FleetReason::kBadKubeconfig, "client-key-data: is not base64, or too long");
  }
  access.certificate_pem = std::move(*pem);
  access.key_pem = Secret(std::move(*key_pem));
  return {};
}

/// What would make this machine run a program, read a file, or be somebody else.
constexpr std::array<std::string_view, 9> kRefusedInUser = {
    "exec",      "auth-provider", "client-certificate", "client-key", "tokenFile", "as",
    "as-groups", "as-uid",        "as-user-extra"};

Judged<void> take_user(const Json& user, FleetAccess& access) {
  for (const std::string_view field : kRefusedInUser) {
    if (is_said(user.find(field))) {
      return fault(
          FleetReason::kBadKubeconfig,
          std::string(field) + ": not from a hub; client-certificate-data, token, username are");
    }
  }
  if (auto taken = take_certificate(user, access); !taken) {
    return taken;
  }
  auto token = secret_text(user, "token");
  auto password = secret_text(user, "password");
  if (!token || !password) {
    return tl::unexpected<FleetFault>(std::move(!token ? token.error() : password.error()));
  }
  access.token = std::move(*token);
  access.password = std::move(*password);
  access.username = user.text({"username"});
  if (!access.has_credential()) {
    return fault(FleetReason::kBadKubeconfig, "the user has no credential");
  }
  return {};
}

}  // namespace

std::string_view fleet_reason_name(FleetReason reason) noexcept {
  return kReasonNames[static_cast<std::size_t>(reason)];
}

FleetServers::FleetServers(const FleetOptions& options) : own_(options.own) {
  if (auto list = net::AddressList::parse(options.allow)) {
    allow_ = std::move(*list);
  }
}

std::optional<FleetFault> FleetServers::judge(std::string_view text) const {
  const auto refuse = [&](std::string_view why) {
    return FleetFault{FleetReason::kBadServer, "server " + shown(text) + " " + std::string(why)};
  };
  const auto url = net::Url::parse(text);
  if (!url || url->scheme != "https" || text.find('@') != std::string_view::npos) {
    return refuse("is no https URL");
  }
  const std::string host = to_lower(url->host);
  const std::string at = host + ":" + std::to_string(url->port);
  if (std::find(own_.begin(), own_.end(), at) != own_.end()) {
    return refuse("is the proxy itself");
  }
  const auto ip = net::canonical_ip(host);
  if (ip ? allow_.has(*ip) : allow_.has_host(host)) {
    return std::nullopt;
  }
  if (!ip && !net::is_host_name(host)) {
    return refuse("has neither a host name nor an address");
  }
  if (ip ? is_near(*ip) : host == "localhost" || host.ends_with(".localhost")) {
    return refuse("is this machine's or its link's (topology.fleet.allow)");
  }
  return std::nullopt;
}

Judged<std::string> read_fleet_certificates(std::string_view base64, std::string_view field) {
  const auto refuse = [&](std::string_view what) {
    return fault(FleetReason::kBadCertificate, std::string(field) + ": " + std::string(what));
  };
  if (base64.size() > kMaxFleetCertificates * 2) {
    return refuse("longer than 64 KiB");
  }
  auto pem = base64_decode(base64);
  if (!pem) {
    return refuse("is not base64");
  }
  if (pem->size() > kMaxFleetCertificates) {
    return refuse("longer than 64 KiB");
  }
  if (pem->find(kBegin) == std::string::npos) {
    return refuse("holds no PEM");
  }
  return std::move(*pem);
}

Judged<FleetAccess> read_fleet_cluster(const Json& cluster, const FleetOptions& options,
                                       const FleetServers& servers) {
  FleetAccess access;
  access.server = cluster.text({"server"});
  while (access.server.ends_with('/')) {
    access.server.pop_back();
  }
  if (auto wrong = servers.judge(access.server)) {
    return tl::unexpected<FleetFault>(std::move(*wrong));
  }
  if (is_said(cluster.find("certificate-authority"))) {
    return fault(FleetReason::kBadCertificate,
                 "certificate-authority: names a file; certificate-authority-data does not");
  }
  if (const std::string_view ca = cluster.text({"certificate-authority-data"}); !ca.empty()) {
    auto pem = read_fleet_certificates(ca, "certificate-authority-data");
    if (!pem) {
      return tl::unexpected<FleetFault>(std::move(pem.error()));
    }
    access.ca_pem = std::move(*pem);
  }
  access.server_name = cluster.text({"tls-server-name"});
  if (!access.server_name.empty() && !net::is_host_name(access.server_name) &&
      !net::canonical_ip(access.server_name)) {
    return fault(FleetReason::kBadServer,
                 "tls-server-name " + shown(access.server_name) + " is no name of a host");
  }
  access.proxy_url = cluster.text({"proxy-url"});
  if (!access.proxy_url.empty() && !net::parse_proxy(access.proxy_url, false)) {
    return fault(FleetReason::kBadServer, "proxy-url: only http://host:port is supported");
  }
  const Json* insecure = cluster.find("insecure-skip-tls-verify");
  access.insecure = insecure != nullptr && insecure->as_bool();
  if (access.insecure && !options.insecure) {
    return fault(FleetReason::kBadServer,
                 "insecure-skip-tls-verify: refused without topology.fleet.insecure");
  }
  return access;
}

Judged<FleetAccess> read_fleet_kubeconfig(std::string_view text, std::string_view context,
                                          const FleetOptions& options,
                                          const FleetServers& servers) {
  const auto refuse = [](std::string what) {
    return fault(FleetReason::kBadKubeconfig, std::move(what));
  };
  if (text.size() > kMaxFleetKubeconfig) {
    return refuse("longer than 256 KiB");
  }
  const auto document = krm::parse_yaml(text);
  if (!document || !document->is_object()) {
    return refuse("is no kubeconfig");  // the parser's words may show what is secret
  }
  const std::string name(context.empty() ? document->text({"current-context"}) : context);
  const Json* entry = krm::find_named(*document, "contexts", name);
  if (entry == nullptr) {
    return refuse("no context " + shown(name));
  }
  const Json* cluster = krm::find_named(*document, "clusters", entry->text({"context", "cluster"}));
  const Json* user = krm::find_named(*document, "users", entry->text({"context", "user"}));
  if (cluster == nullptr || cluster->find("cluster") == nullptr || user == nullptr ||
      user->find("user") == nullptr) {
    return refuse("context " + shown(name) + " names no cluster, or no user");
  }
  auto access = read_fleet_cluster(*cluster->find("cluster"), options, servers);
  if (!access) {
    return access;
  }
  if (auto taken = take_user(*user->find("user"), *access); !taken) {
    return tl::unexpected<FleetFault>(std::move(taken.error()));
  }
  return access;
}

}  // namespace kintsugi::topology
