#include "server/internal/named_peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_lock.h"
#include "base/host_port.h"
#include "krm/json.h"
#include "net/inherited_sockets.h"
#include "server/etcd_password.h"
#include "server/files.h"
#include "server/internal/port_owner.h"
#include "server/internal/proxy_files.h"
#include "server/internal/webhook_server.h"

namespace kintsugi::server {
namespace {

/// Why the address cannot be bound; 0: it can, or it is no address.
int bind_fault(const std::string& address, std::uint16_t port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v4 = ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) != 1) {
    return 0;
  }
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const int fd = ::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* const name =
      is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const int fault = fd >= 0 && ::bind(fd, name, is_v4 ? sizeof v4 : sizeof v6) != 0 ? errno : 0;
  if (fd >= 0) {
    ::close(fd);
  }
  return fault;
}

}  // namespace

void add_etcd(PeerProbe& probe, const std::string& place, const store::EtcdParams& params,
              const std::string& password_file, bool required) {
  auto password = read_etcd_password(password_file);
  net::TlsParams files;
  files.ca_file = params.ca_file;
  files.certificate_file = params.cert_file;
  files.key_file = params.key_file;
  for (const std::string& endpoint : params.endpoints) {
    const bool is_tls = endpoint.starts_with("https:");
    auto tls = is_tls ? net::TlsContext::client(files) : std::shared_ptr<net::TlsContext>();
    auto server = tls ? upstream_to(endpoint, *tls)
                      : Expected<net::UpstreamParams>(fail(std::move(tls.error())));
    if (!server || !password) {
      const Error& why = server ? password.error() : server.error();
      probe.find({true, place + ": " + std::string(why.message())});
      return;
    }
    Peer peer;
    peer.place = place;
    peer.name = "etcd";
    peer.server = std::move(*server);
    peer.asks = Peer::Asks::kEtcd;
    peer.required = required;
    peer.etcd = params;
    peer.etcd.endpoints = {endpoint};
    peer.etcd.password = Secret::copy_of(password->view());
    probe.add(std::move(peer));
  }
}

void add_webhook(PeerProbe& probe, const std::string& place, const std::string& name,
                 const std::string& kubeconfig) {
  if (kubeconfig.empty()) {
    return;
  }
  auto server = load_webhook_server(kubeconfig);
  if (!server) {
    return;  // told with the files
  }
  Peer peer;
  peer.place = place;
  peer.name = name;
  peer.server = std::move(server->upstream);
  peer.target = "";
  if (peer.server.tls == nullptr && !server->authorization.empty()) {
    peer.headers.add("authorization", server->authorization.view());
  }
  probe.add(std::move(peer));
}

void check_port(PeerProbe& probe, const std::string& place, const std::string& address,
                std::uint16_t port, const std::string& lock) {
  // Who is given sockets listens at those alone.
  const bool is_free = port == 0 || net::inherited_descriptors() != 0;
  const int fault = is_free ? 0 : bind_fault(address, port);
  if (fault == 0) {
    return;
  }
  std::string what = place + ": " + host_port(address, port);
  bool is_error = true;
  if (fault != EADDRINUSE) {
    what += std::string(": ") + std::strerror(fault);
  } else {
    const auto owner = port_owner(address, port);
    constexpr pid_t kServiceManager = 1;
    if (owner && owner->process == kServiceManager) {
      return;  // a socket unit's, which gives it to its service: that is how it should be
    }
    what += " is in use";
    what += owner && owner->process != 0 ? " (pid " + std::to_string(owner->process) + ")" : "";
    if (file_exists(lock)) {
      const auto held = FileLock::take(lock, LockFile::kIsLeftAlone);
      is_error = held.has_value();
      what += is_error ? "" : ", as is " + lock + ": by what runs with this configuration";
    }
    if (is_error && owner && owner->process == 0 && owner->user == 0 && ::geteuid() != 0) {
      is_error = false;
      what +=
          " by a process of root: by systemd, if a socket unit keeps it (systemctl "
          "list-sockets)";
    }
  }
  probe.find({is_error, what});
}

std::vector<NamedShard> shards_in(std::string_view list) {
  std::vector<NamedShard> out;
  const auto document = krm::Json::parse(list);
  const krm::Json* const items =
      document && document->is_object() ? document->find("items") : nullptr;
  for (const krm::Json& item : items != nullptr ? items->items() : krm::Json::Array()) {
    out.push_back({std::string(item.text({"metadata", "name"})),
                   std::string(item.text({"spec", "baseURL"}))});
  }
  return out;
}

}  // namespace kintsugi::server
