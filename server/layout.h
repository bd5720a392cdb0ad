#pragma once

#include <string>

namespace kintsugi::server {

/// Paths of an installation (docs/configuration.md). All below `dir`, which is absolute.
struct Layout {
  std::string dir;

  [[nodiscard]] std::string pki() const { return dir + "/pki"; }
  [[nodiscard]] std::string run() const { return dir + "/run"; }
  [[nodiscard]] std::string logs() const { return dir + "/logs"; }
  [[nodiscard]] std::string ready_file() const { return dir + "/ready"; }
  [[nodiscard]] std::string admin_kubeconfig() const { return dir + "/admin.kubeconfig"; }
  /// @{ Of one of several proxies: "proxy", "proxy-2", …
  [[nodiscard]] std::string admin_socket(const std::string& proxy = "proxy") const {
    return run() + (proxy == "proxy" ? "/admin.sock" : "/admin-" + proxy + ".sock");
  }
  [[nodiscard]] std::string proxy(const std::string& proxy = "proxy") const {
    return dir + "/" + proxy;
  }
  [[nodiscard]] std::string proxy_config(const std::string& name = "proxy") const {
    return proxy(name) + "/proxy.yaml";
  }
  [[nodiscard]] std::string proxy_data(const std::string& name = "proxy") const {
    return proxy(name) + "/data";
  }
  /// Decimal port that it listens on; of the first one it is an option.
  [[nodiscard]] std::string proxy_port(const std::string& name) const {
    return proxy(name) + "/port";
  }  /// @}
  [[nodiscard]] std::string shard(const std::string& name) const { return dir + "/shards/" + name; }
  [[nodiscard]] std::string shard_data(const std::string& name) const {
    return shard(name) + "/data";
  }
  /// Decimal port that the process listens on, which writes it and tries it again at its next
  /// start.
  [[nodiscard]] std::string shard_port(const std::string& name,
                                       const std::string& replica = {}) const {
    return shard_replica(name, replica) + "/port";
  }
  /// Of one of several processes of a shard; "": that of the shard itself.
  [[nodiscard]] std::string shard_replica(const std::string& name,
                                          const std::string& replica) const {
    return replica.empty() ? shard(name) : shard(name) + "/replicas/" + replica;
  }
  [[nodiscard]] std::string shard_kubeconfig(const std::string& name,
                                             const std::string& replica = {}) const {
    return shard_replica(name, replica) + "/admin.kubeconfig";
  }
  /// With the proxy's own certificate, which may do what SE-148 lists.
  [[nodiscard]] std::string proxy_kubeconfig(const std::string& name,
                                             const std::string& replica = {}) const {
    return shard_replica(name, replica) + "/proxy.kubeconfig";
  }
  /// Of the installation that was joined with a token: its proxy's address, a line.
  [[nodiscard]] std::string proxy_url_file() const { return dir + "/proxy/url"; }
  /// Where a shard, or one of its processes, is asked (OP-303).
  [[nodiscard]] std::string shard_admin_socket(const std::string& name,
                                               const std::string& replica = {}) const {
    return run() + "/admin-" + name + (replica.empty() ? "" : "-" + replica) + ".sock";
  }
  /// Where `kintsugi up` is asked (OP-406).
  [[nodiscard]] std::string up_admin_socket() const { return run() + "/admin-up.sock"; }
  [[nodiscard]] std::string worker_admin_socket(const std::string& role) const {
    return run() + "/admin-worker-" + role + ".sock";
  }
  [[nodiscard]] std::string worker(const std::string& role) const {
    return dir + "/workers/" + role;
  }
  [[nodiscard]] std::string worker_config(const std::string& role) const {
    return worker(role) + "/worker.yaml";
  }
  [[nodiscard]] std::string worker_kubeconfig(const std::string& role) const {
    return worker(role) + "/worker.kubeconfig";
  }
  /// Unix sockets of its pages: /livez, /healthz, /readyz; /metrics.
  [[nodiscard]] std::string worker_health(const std::string& role) const {
    return run() + "/worker-" + role + ".sock";
  }
  [[nodiscard]] std::string worker_metrics(const std::string& role) const {
    return run() + "/worker-" + role + ".metrics.sock";
  }
  [[nodiscard]] std::string pid_file(const std::string& process) const {
    return run() + "/" + process + ".pid";
  }
  [[nodiscard]] std::string log_file(const std::string& process) const {
    return logs() + "/" + process + ".log";
  }
};

}  // namespace kintsugi::server
