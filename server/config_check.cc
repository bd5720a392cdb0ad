#include "server/config_check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "auth/certificate_end.h"
#include "auth/key_pair.h"
#include "auth/x509_identity.h"
#include "base/secret_file.h"
#include "base/time.h"
#include "net/upstream.h"
#include "net/x509_maker.h"
#include "server/files.h"
#include "server/internal/fleet_source.h"
#include "server/internal/kube_tls.h"
#include "server/internal/proxy_files.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

constexpr std::int64_t kDay = 86'400;            // seconds
constexpr std::int64_t kSoon = 14 * kDay;        // a certificate that ends before is warned of
constexpr std::uint64_t kLittleSpace = 1 << 30;  // bytes
constexpr rlim_t kFewFiles = 4'096;
constexpr std::uint16_t kFirstFreePort = 1'024;

enum class Use : std::uint8_t { kServer, kClient };

std::string days_text(std::int64_t seconds) {
  const std::int64_t days = seconds / kDay;
  return std::to_string(days) + (days == 1 ? " day" : " days");
}

std::string time_text(std::int64_t at) {
  const std::time_t seconds = at;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

class Checks {
 public:
  Checks(const LoadedProxyConfig& loaded, std::int64_t now) : loaded_(loaded), now_(now) {}

  void error(const std::string& key, std::string_view what) { add(true, key, what); }
  void warn(const std::string& key, std::string_view what) { add(false, key, what); }

  /// Reads it; "" with a finding when that cannot be done, and without one when there is none.
  std::string read(const std::string& key, const std::string& path) {
    if (path.empty()) {
      return {};
    }
    ++check_.checks;
    auto text = read_file(path);
    if (!text) {
      unreadable(key, path, text.error());
      return {};
    }
    if (text->empty()) {
      error(key, path + " is empty");
    }
    return std::move(*text);
  }

  /// The same for what nobody else may see.
  Secret read_secret(const std::string& key, const std::string& path) {
    if (path.empty()) {
      return {};
    }
    ++check_.checks;
    auto text = read_secret_file(path);
    if (!text) {
      unreadable(key, path, text.error());
      return {};
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
      warn(key, path + " can be read by others; chmod 600");
    }
    return std::move(*text);
  }

  /// When it begins and ends.
  void in_time(const std::string& key, const auth::CertificateFacts& facts) {
    if (facts.ends <= now_) {
      error(key, "ended " + days_text(now_ - facts.ends) + " ago (" + time_text(facts.ends) + ")");
    } else if (facts.begins > now_) {
      error(key, "is not valid before " + time_text(facts.begins));
    } else if (facts.ends - now_ < kSoon) {
      warn(key, "ends in " + days_text(facts.ends - now_));
    }
  }

  /// A certificate and its key.
  void pair(const std::string& cert_key, const std::string& certificate_file,
            const std::string& key_key, const std::string& key_file, Use use,
            const std::string& host = {}) {
    const std::string pem = read(cert_key, certificate_file);
    const Secret key = read_secret(key_key, key_file);
    if (pem.empty()) {
      return;
    }
    const auto facts = auth::facts_of(pem);
    if (!facts) {
      error(cert_key, certificate_file + " holds no certificate");
      return;
    }
    in_time(cert_key, *facts);
    if (use == Use::kServer ? !facts->for_servers : !facts->for_clients) {
      error(cert_key, use == Use::kServer ? "is not for servers" : "is not for clients");
    }
    if (!host.empty() && !auth::names_host(pem, host)) {
      std::string names;
      for (const std::string& name : facts->names) {
        names += (names.empty() ? "" : ", ") + name;
      }
      warn(cert_key, "does not name \"" + host + "\", the host of external_url (names: " +
                         (names.empty() ? "none" : names) + ")");
    }
    if (!key.empty() && !auth::key_pair_fault(pem, key.view()).empty()) {
      error(key_key, net::is_key_of(pem, key) ? "cannot be used with " + cert_key
                                              : "is not the key of " + cert_key);
    }
  }

  void authority(const std::string& key, const std::string& path) {
    const std::string pem = read(key, path);
    if (pem.empty()) {
      return;
    }
    const std::vector<std::string> all = net::split_certificates(pem);
    if (all.empty()) {
      error(key, path + " holds no certificate");
    }
    bool valid = false;
    for (const std::string& one : all) {
      const auto facts = auth::facts_of(one);
      if (!facts) {
        error(key, path + " holds a certificate that cannot be read");
        return;
      }
      valid = valid || facts->ends > now_;
      if (!facts->is_ca) {
        error(key, "is not a CA: " + auth::common_name_of(one));
      }
    }
    if (const auto facts = auth::facts_of(pem); facts && (all.size() == 1 || !valid)) {
      in_time(key, *facts);
    }
  }

  void revocations(const std::string& key, const std::string& path, const std::string& authority) {
    const std::string text = read(key, path);
    const auto ca = authority.empty() ? Expected<std::string>("") : read_file(authority);
    if (text.empty() || !ca) {
      return;  // told already
    }
    if (auto lists = auth::load_revocations(path, *ca, loaded_.config.crl); !lists) {
      error(key, lists.error().message());
    }
  }

  /// @param own  somebody asks with it: it must say who one is.
  void kubeconfig(const std::string& key, const std::string& path, KubeServer needs,
                  std::string_view context, bool own) {
    if (path.empty()) {
      return;
    }
    ++check_.checks;
    const auto access = read_kubeconfig(path, context, needs);
    if (!access) {
      error(key, access.error().message());
      return;
    }
    if (own && !access->has_credential()) {
      error(key, path + " has no credential");
    }
    if (const auto facts = auth::facts_of(access->certificate_pem)) {
      in_time(key, *facts);
    }
    if (auto tls = client_context(*access, path, nullptr); !tls) {
      error(key, tls.error().message());
    }
  }

  /// A folder that is written to, or made.
  void folder(const std::string& key, std::filesystem::path path) {
    if (path.empty()) {
      return;
    }
    ++check_.checks;
    std::error_code ignored;
    while (!std::filesystem::exists(path, ignored) && path.has_parent_path() &&
           path != path.parent_path()) {
      path = path.parent_path();
    }
    if (!std::filesystem::is_directory(path, ignored)) {
      error(key, path.string() + " is no folder");
      return;
    }
    if (::access(path.c_str(), W_OK | X_OK) != 0) {
      error(key, path.string() + " cannot be written: " + std::strerror(errno));
    }
    struct statvfs space {};
    if (::statvfs(path.c_str(), &space) == 0 && space.f_bavail * space.f_frsize < kLittleSpace) {
      warn(key, std::to_string(space.f_bavail * space.f_frsize >> 20) + " MiB are free in " +
                    path.string());
    }
  }

  /// What loads with a function of its own: its error tells file and cause.
  template <class Result>
  void loads(const std::string& key, const Expected<Result>& result) {
    ++check_.checks;
    if (!result) {
      error(key, result.error().message());
    }
  }

  [[nodiscard]] ConfigCheck take() { return std::move(check_); }
  [[nodiscard]] bool has_error() const { return check_.has_error(); }
  void count() { ++check_.checks; }

 private:
  void unreadable(const std::string& key, const std::string& path, const Error& cause) {
    std::string_view what = cause.message();
    if (what.starts_with(path + ": ")) {
      what.remove_prefix(path.size() + 2);
    }
    error(key, path + " cannot be read: " + std::string(what));
  }

  void add(bool is_error, const std::string& key, std::string_view what) {
    const std::string where = place_of(loaded_.path, loaded_.origin, key);
    check_.findings.push_back({is_error, where + ": " + key + ": " + std::string(what)});
  }

  const LoadedProxyConfig& loaded_;
  const std::int64_t now_;
  ConfigCheck check_;
};

void check_listener(const proxy::ProxyConfig& config, Checks& checks) {
  const auto url = net::Url::parse(config.external_url);
  checks.pair("listener.cert_file", config.listener.cert_file, "listener.key_file",
              config.listener.key_file, Use::kServer, url ? url->host : "");
  for (const net::SniPair& pair : config.listener.tls.sni) {
    checks.pair("listener.cert_file", pair.certificate_file, "listener.key_file", pair.key_file,
                Use::kServer);
  }
  checks.count();
  if (config.listener.port != 0 && config.listener.port < kFirstFreePort && ::geteuid() != 0) {
    checks.warn("listener.port", "port " + std::to_string(config.listener.port) +
                                     " needs CAP_NET_BIND_SERVICE or socket activation");
  }
}

void check_authentication(const proxy::AuthenticationConfig& config, Checks& checks) {
  checks.authority("authentication.client_ca_file", config.client_ca_file);
  checks.revocations("authentication.client_crl_file", config.client_crl_file,
                     config.client_ca_file);
  checks.authority("authentication.request_header.client_ca_file",
                   config.request_header.client_ca_file);
  checks.revocations("authentication.request_header.client_crl_file",
                     config.request_header.client_crl_file, config.request_header.client_ca_file);
  checks.authority("authentication.oidc.ca_file", config.oidc.ca_file);
  checks.kubeconfig("authentication.webhook.kubeconfig", config.webhook.kubeconfig,
                    KubeServer::kRequired, "", false);
}

void check_backend(const proxy::ProxyConfig& config, Checks& checks) {
  checks.authority("backend.ca_file", config.backend.ca_file);
  checks.revocations("backend.crl_file", config.backend.crl_file, config.backend.ca_file);
  checks.pair("backend.cert_file", config.backend.cert_file, "backend.key_file",
              config.backend.key_file, Use::kClient);
  for (const proxy::ShardOverride& shard : config.shards) {
    const std::string at = "shards." + shard.name;
    checks.authority(at + ".ca_file", shard.ca_file);
    checks.pair(at + ".cert_file", shard.cert_file, at + ".key_file", shard.key_file, Use::kClient);
    checks.kubeconfig(at + ".kubeconfig", shard.kubeconfig, KubeServer::kOptional,
                      context_of(shard.kubeconfig), true);
  }
}

void check_topology(const proxy::ProxyConfig& config, Checks& checks) {
  const auto& topology = config.topology;
  const auto own = [&](const std::string& key, const std::string& path, KubeServer needs) {
    checks.kubeconfig(key, path, needs, context_of(path), true);
  };
  own("topology.root_kubeconfig", topology.root_kubeconfig, KubeServer::kRequired);
  own("topology.shards_kubeconfig", topology.shards_kubeconfig, KubeServer::kOptional);
  own("topology.reviewed_kubeconfig", topology.reviewed_kubeconfig, KubeServer::kOptional);
  own("topology.fleet.kubeconfig", topology.fleet.kubeconfig, KubeServer::kRequired);
  if (!topology.fleet.provider_file.empty()) {
    checks.loads("topology.fleet.provider_file", load_fleet_providers(config));
  }
  for (const std::string& path : topology.peer_kubeconfigs) {
    checks.kubeconfig("topology.peer_kubeconfigs", path, KubeServer::kRequired, "", true);
  }
  for (std::size_t i = 0; i < topology.shards.size(); ++i) {
    const proxy::StaticShard& shard = topology.shards[i];
    const std::string at = "topology.shards[" + std::to_string(i) + "]";
    checks.authority(at + ".ca_file", shard.ca_file);
    checks.pair(at + ".cert_file", shard.cert_file, at + ".key_file", shard.key_file, Use::kClient);
    checks.read_secret(at + ".token_file", shard.token_file);
    checks.kubeconfig(at + ".kubeconfig", shard.kubeconfig,
                      shard.url.empty() ? KubeServer::kRequired : KubeServer::kOptional, "", true);
  }
}

void check_machine(const proxy::ProxyConfig& config, Checks& checks) {
  checks.folder("data_dir", config.data_dir);
  if (!config.audit.log_file.empty() && config.audit.log_file != "-") {
    checks.folder("audit.log_file", std::filesystem::path(config.audit.log_file).parent_path());
  }
  if (!config.access_log.file.empty()) {
    checks.folder("access_log.file", std::filesystem::path(config.access_log.file).parent_path());
  }
  checks.read_secret("admin.token_file", config.admin.token_file);
  checks.count();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kFewFiles) {
    checks.warn("limits", "the hard limit of " + std::to_string(files.rlim_max) +
                              " files leaves about " + std::to_string(files.rlim_max * 2 / 5) +
                              " connections");
  }
}

}  // namespace

bool ConfigCheck::has_error() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const ConfigFinding& one) { return one.is_error; });
}

std::string place_of(const std::string& path, const krm::ConfigOrigin& origin,
                     const std::string& key) {
  if (origin.environment.contains(key)) {
    return krm::environment_name(key);
  }
  if (path.empty() || origin.amended.contains(key)) {
    return "command line";
  }
  const auto line = origin.lines.find(key);
  return path + (line == origin.lines.end() ? "" : ":" + std::to_string(line->second));
}

ConfigCheck check_files(const LoadedProxyConfig& loaded, std::int64_t now) {
  const proxy::ProxyConfig& config = loaded.config;
  Checks checks(loaded, now);
  check_listener(config, checks);
  check_authentication(config.authentication, checks);
  check_backend(config, checks);
  check_topology(config, checks);
  check_machine(config, checks);
  checks.read("mapping_file", config.mapping_file);
  checks.read("audit.policy_file", config.audit.policy_file);
  checks.kubeconfig("audit.webhook_kubeconfig", config.audit.webhook_kubeconfig,
                    KubeServer::kRequired, "", false);
  checks.read_secret("aggregation.token_keys_file", config.token_keys_file);
  checks.authority("store.ca_file", config.store.ca_file);
  checks.pair("store.cert_file", config.store.cert_file, "store.key_file", config.store.key_file,
              Use::kClient);
  checks.read_secret("store.password_file", config.store.password_file);
  checks.read_secret("store.seal_key_file", config.store.seal_key_file);
  checks.loads("authentication", load_token_files(config.authentication));
  if (!checks.has_error()) {
    // As a start does it: what is wrong in a way of its own is told here.
    checks.loads("configuration", load_proxy_files(config));
    if (!checks.has_error()) {
      checks.loads("topology", load_topology_files(config));
    }
  }
  return checks.take();
}

std::string report_text(const ConfigCheck& check, const std::string& name) {
  std::string text;
  std::size_t errors = 0;
  for (const ConfigFinding& one : check.findings) {
    errors += one.is_error ? 1 : 0;
    text += (one.is_error ? "error: " : "warning: ") + one.text + "\n";
  }
  const auto counted = [](std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  const std::size_t warnings = check.findings.size() - errors;
  return text + name + ": " +
         (errors == 0 ? "ok (" + counted(check.checks, "check")
                      : counted(errors, "error") + " (" + counted(check.checks, "check")) +
         (warnings == 0 ? "" : ", " + counted(warnings, "warning")) + ")\n";
}

}  // namespace kintsugi::server
