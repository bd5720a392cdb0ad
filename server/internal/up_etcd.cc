#include "server/internal/up_etcd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "server/files.h"
#include "server/internal/child_process.h"
#include "server/internal/pki.h"
#include "server/internal/up_files.h"

namespace kintsugi::server {
namespace {

constexpr const char* kPair = "etcd";
constexpr const char* kPeer = "etcd-peer";
constexpr const char* kPeerName = "kintsugi:etcd-peer";
constexpr const char* kClient = "etcd-client";
const std::vector<std::string> kHosts = {"127.0.0.1", "localhost"};
constexpr const char* kQuota = "8589934592";

/// Of the processes, and of their folders: `etcd`, or `etcd-1`, `etcd-2`, ….
std::vector<std::string> names_of(std::uint32_t members) {
  if (members == 1) {
    return {"etcd"};
  }
  std::vector<std::string> out;
  for (std::uint32_t i = 1; i <= members; ++i) {
    out.push_back("etcd-" + std::to_string(i));
  }
  return out;
}

/// What etcd calls a member.
std::string member_name(const std::string& name) { return name == "etcd" ? "one" : name; }

std::string folder_of(const Layout& layout, const std::string& name) {
  return layout.dir + "/" + name;
}

/// An etcd does not get members by being started with other flags.
Expected<void> expect_as_many(const UpOptions& options) {
  for (const std::uint32_t members : {1U, 3U}) {
    const std::string first = folder_of(options.layout, names_of(members).front());
    if (members != options.etcd_members && file_exists(first + "/ports")) {
      return fail(Errc::kConfig,
                  "--etcd-members: the etcd of this installation has " + std::to_string(members));
    }
  }
  return {};
}

Expected<std::string> find_program() {
  if (auto found = program_in_path("etcd")) {
    return std::move(*found);
  }
  return fail(Errc::kConfig,
              "--store etcd: PATH has no etcd (Debian: etcd-server); or name one that runs: "
              "--store etcd=URL,…");
}

struct Ports {
  std::uint16_t client = 0, peer = 0;
};

/// Those of the first start: what etcd has written names them.
Expected<Ports> ports_of(const Layout& layout, const std::string& name) {
  const std::string file = folder_of(layout, name) + "/ports";
  if (file_exists(file)) {
    const auto text = read_file(file);
    if (!text) {
      return fail(text.error().clone());
    }
    const auto parts = split(trim(std::string_view(*text).substr(0, text->find('\n'))), ' ');
    const auto client = parse_decimal<std::uint16_t>(parts.front());
    const auto peer = parse_decimal<std::uint16_t>(parts.back());
    if (parts.size() != 2 || !client || !peer) {
      return fail(Errc::kIo, file + " does not have two ports");
    }
    return Ports{*client, *peer};
  }
  const auto client = free_port();
  const auto peer = free_port();
  if (!client || !peer) {
    return fail(!client ? client.error().clone() : peer.error().clone());
  }
  const auto written =
      write_file(file, std::to_string(*client) + " " + std::to_string(*peer) + "\n");
  if (!written) {
    return fail(written.error().clone());
  }
  return Ports{*client, *peer};
}

std::string url_of(std::uint16_t port) { return "https://127.0.0.1:" + std::to_string(port); }

}  // namespace

Expected<std::vector<EtcdProcess>> prepare_etcd(const UpOptions& options) {
  auto program = find_program();
  if (!program) {
    return fail(std::move(program.error()));
  }
  if (auto same = expect_as_many(options); !same) {
    return fail(std::move(same.error()));
  }
  const Layout& layout = options.layout;
  const Pki pki(layout.pki());
  auto made = pki.ensure_server(kPair, kHosts);
  if (made) {
    made = pki.ensure_peer(kPeer, kPeerName, kHosts);
  }
  if (made) {
    made = pki.ensure_client(kClient, "kintsugi:etcd", "kintsugi:shards");
  }
  if (!made) {
    return fail(std::move(made.error()));
  }
  std::vector<EtcdProcess> out;
  std::vector<Ports> ports;
  std::vector<std::string> cluster;
  for (const std::string& name : names_of(options.etcd_members)) {
    if (auto folder = make_directories(folder_of(layout, name)); !folder) {
      return fail(std::move(folder.error()));
    }
    const auto found = ports_of(layout, name);
    if (!found) {
      return fail(found.error().clone());
    }
    ports.push_back(*found);
    cluster.push_back(member_name(name) + "=" + url_of(found->peer));
    out.push_back({name, *program, {}});
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string client = url_of(ports[i].client);
    const std::string peer = url_of(ports[i].peer);
    out[i].arguments = {"--name=" + member_name(out[i].name),
                        "--data-dir=" + folder_of(layout, out[i].name) + "/data",
                        "--listen-client-urls=" + client,
                        "--advertise-client-urls=" + client,
                        "--listen-peer-urls=" + peer,
                        "--initial-advertise-peer-urls=" + peer,
                        "--initial-cluster=" + join(cluster, ","),
                        "--quota-backend-bytes=" + std::string(kQuota),
                        "--cert-file=" + pki.certificate(kPair),
                        "--key-file=" + pki.key(kPair),
                        "--client-cert-auth",
                        "--trusted-ca-file=" + pki.certificate("client-ca"),
                        "--peer-cert-file=" + pki.certificate(kPeer),
                        "--peer-key-file=" + pki.key(kPeer),
                        "--peer-client-cert-auth",
                        "--peer-trusted-ca-file=" + pki.certificate("client-ca"),
                        "--peer-cert-allowed-cn=" + std::string(kPeerName)};
  }
  return out;
}

Expected<std::uint16_t> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool fine =
      fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  const int why = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!fine) {
    return fail(Errc::kIo, "no port of 127.0.0.1: " + std::string(std::strerror(why)));
  }
  return ntohs(address.sin_port);
}

namespace {

/// Where etcd is, and with what it is asked.
struct Access {
  std::vector<std::string> urls;
  std::string ca_file, cert_file, key_file;  ///< "": others run it
};

std::vector<std::string> urls_of(const std::vector<std::uint16_t>& ports) {
  std::vector<std::string> urls;
  urls.reserve(ports.size());
  for (const std::uint16_t port : ports) {
    urls.push_back(url_of(port));
  }
  return urls;
}

Expected<Access> access_of(const UpOptions& options) {
  if (!options.etcd_urls.empty()) {
    return Access{options.etcd_urls, {}, {}, {}};
  }
  const Pki pki(options.layout.pki());
  const auto ports = ports_of_etcd(options);
  if (!ports) {
    return fail(ports.error().clone());
  }
  return Access{urls_of(*ports), pki.certificate("serving-ca"), pki.certificate(kClient),
                pki.key(kClient)};
}

}  // namespace

Expected<std::vector<std::string>> store_arguments(const UpOptions& options) {
  if (!options.uses_etcd) {
    return std::vector<std::string>();
  }
  const auto access = access_of(options);
  if (!access) {
    return fail(access.error().clone());
  }
  std::vector<std::string> out = {"--store", "etcd=" + join(access->urls, ",")};
  if (!access->ca_file.empty()) {
    out.insert(out.end(), {"--etcd-ca-file", access->ca_file, "--etcd-cert-file", access->cert_file,
                           "--etcd-key-file", access->key_file, "--etcd-compaction", "own"});
  }
  return out;
}

Expected<std::vector<std::uint16_t>> ports_of_etcd(const UpOptions& options) {
  std::vector<std::uint16_t> out;
  for (const std::string& name : names_of(options.etcd_members)) {
    const auto ports = ports_of(options.layout, name);
    if (!ports) {
      return fail(ports.error().clone());
    }
    out.push_back(ports->client);
  }
  return out;
}

Expected<std::string> proxy_store_text(const UpOptions& options, std::uint32_t index,
                                       const std::vector<std::uint16_t>& far_ports) {
  const std::string data = options.layout.proxy_data(proxy_name(index));
  const bool has_data = file_exists(data + "/data.mdb");
  if (!options.uses_etcd || (has_data && options.proxies == 1)) {
    return std::string();
  }
  if (has_data) {
    return fail(Errc::kConfig,
                "--proxies: the data of the proxy is in " + data + ", which several cannot share");
  }
  auto access = access_of(options);
  if (!access) {
    return fail(std::move(access.error()));
  }
  if (!far_ports.empty()) {
    access->urls = urls_of(far_ports);
  }
  std::string text =
      "store:\n  type: etcd\n  endpoints: [\"" + join(access->urls, "\", \"") + "\"]\n";
  if (!access->ca_file.empty()) {
    text += "  ca_file: " + access->ca_file + "\n  cert_file: " + access->cert_file +
            "\n  key_file: " + access->key_file + "\n";
  }
  return text;
}

}  // namespace kintsugi::server
