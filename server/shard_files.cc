#include "server/shard_files.h"

#include <string_view>
#include <utility>

#include "base/secret_file.h"
#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

Expected<void> make_account_key(const std::string& path) {
  auto key = auth::JwtKey::generate();
  if (!key) {
    return fail(std::move(key.error()));
  }
  auto pem = (*key)->private_pem();
  if (!pem) {
    return fail(std::move(pem.error()));
  }
  if (auto made = create_file(path, *pem, 0600); !made) {
    return fail(std::move(made.error()));
  }
  return {};
}

/// A kubeconfig for the shard itself with one pair of the installation, where it differs.
Expected<void> write_access(const Layout& layout, std::string_view pair,
                            const std::string& base_url, const std::string& path) {
  const Pki pki(layout.pki());
  auto ca = read_file(pki.certificate("serving-ca"));
  auto certificate = read_file(pki.certificate(pair));
  auto key = read_secret_file(pki.key(pair));
  if (!ca || !certificate || !key) {
    return fail(std::move(!ca ? ca.error() : !certificate ? certificate.error() : key.error()));
  }
  const std::string config =
      render_kubeconfig({{"root", base_url + std::string(krm::kRootClusterPath)},
                         {"base", base_url},
                         {"shard-base", base_url}},  // as kcp's tools call it (KK-061)
                        pair, *ca, *certificate, key->view());
  if (const auto before = read_file(path); before && *before == config) {
    return {};
  }
  return write_file(path, config, 0600);
}

}  // namespace

Expected<void> check_join_folder(const Layout& layout) {
  if (!file_exists(layout.dir)) {
    return fail(Errc::kConfig, layout.dir + " does not exist; `kintsugi up --dir " + layout.dir +
                                   "` makes an installation to join");
  }
  const Pki pki(layout.pki());
  for (const char* name : {"serving-ca", "client-ca", "requestheader-ca"}) {
    if (!file_exists(pki.certificate(name))) {
      return fail(Errc::kConfig, pki.certificate(name) + " is missing; `kintsugi up --dir " +
                                     layout.dir + "` makes an installation to join");
    }
  }
  return {};
}

std::string account_key_file(const Layout& layout) {
  return Pki(layout.pki()).key("service-account");
}

Expected<auth::JwtKeys> ensure_account_keys(const Layout& layout) {
  const std::string path = account_key_file(layout);
  if (!file_exists(path)) {
    if (auto made = make_account_key(path); !made) {
      return fail(std::move(made.error()));
    }
  }
  auto pem = read_secret_file(path);
  if (!pem) {
    return fail(std::move(pem.error()));
  }
  auto keys = auth::JwtKey::parse_pem(pem->view());
  if (!keys) {
    return fail(std::move(keys.error()).at(path));
  }
  return std::move(*keys);
}

std::uint16_t last_port(const Layout& layout, const std::string& name, const std::string& replica) {
  const auto text = read_file(layout.shard_port(name, replica));
  if (!text) {
    return 0;
  }
  const std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  return parse_decimal<std::uint16_t>(trim(line)).value_or(0);
}

Expected<void> write_shard_access(const Layout& layout, const std::string& name,
                                  const std::string& replica, const std::string& base_url) {
  // Who joined with a token has neither.
  for (const auto& [pair, path] :
       {std::pair("shard-admin", layout.shard_kubeconfig(name, replica)),
        std::pair("kintsugi-proxy", layout.proxy_kubeconfig(name, replica))}) {
    if (!file_exists(Pki(layout.pki()).certificate(pair))) {
      continue;
    }
    if (auto written = write_access(layout, pair, base_url, path); !written) {
      return written;
    }
  }
  return {};
}

Expected<void> write_shard_port(const Layout& layout, const std::string& name,
                                const std::string& replica, std::uint16_t port) {
  return write_file(layout.shard_port(name, replica), std::to_string(port) + "\n");
}

Expected<Secret> ensure_kcp_tokens(const Layout& layout, const std::string& name) {
  const std::string path = layout.shard(name) + "/kcp-tokens.csv";
  if (!file_exists(path)) {
    const std::string line =
        hex_encode(random_bytes(16)) + ",kcp-admin,kcp-admin,\"system:kcp:admin\"\n";
    if (auto made = create_file(path, line, 0600); !made) {
      return fail(std::move(made.error()));
    }
  }
  return read_secret_file(path);
}

Expected<void> write_kcp_files(const Layout& layout, const std::string& name,
                               const std::string& base_url) {
  const Pki pki(layout.pki());
  auto ca = read_file(pki.certificate("serving-ca"));
  auto certificate = read_file(pki.certificate("shard-admin"));
  auto key = read_secret_file(pki.key("shard-admin"));
  auto tokens = ensure_kcp_tokens(layout, name);
  if (!ca || !certificate) {
    return fail(std::move(!ca ? ca.error() : certificate.error()));
  }
  if (!key || !tokens) {
    return fail(std::move(!key ? key.error() : tokens.error()));
  }
  const auto config = [&](const std::string& context, const std::string& server,
                          const std::string& user, const std::string& credential) {
    return "apiVersion: v1\nkind: Config\nclusters:\n- name: " + context +
           "\n  cluster:\n    server: \"" + server +
           "\"\n    certificate-authority-data: " + base64_encode(*ca) +
           "\nusers:\n- name: " + user + "\n  user:\n" + credential +
           "contexts:\n- name: " + context + "\n  context:\n    cluster: " + context +
           "\n    user: " + user + "\ncurrent-context: " + context + "\n";
  };
  if (auto written = write_file(
          layout.shard(name) + "/root.kubeconfig",
          config("base", base_url, "kcp-admin",
                 "    token: " + std::string(tokens->view().substr(0, tokens->view().find(','))) +
                     "\n"),
          0600);
      !written) {
    return written;
  }
  return write_file(layout.shard(name) + "/shards.kubeconfig",
                    config("shard-base", "", "shard-admin",
                           "    client-certificate-data: " + base64_encode(*certificate) +
                               "\n    client-key-data: " + base64_encode(key->view()) + "\n"),
                    0600);
}

std::string proxy_url(const Layout& layout) {
  if (!file_exists(layout.admin_kubeconfig())) {
    const auto told = read_file(layout.proxy_url_file());
    return told ? std::string(trim(std::string_view(*told).substr(0, told->find('\n'))))
                : std::string();
  }
  const auto access = read_kubeconfig(layout.admin_kubeconfig());
  if (!access) {
    return {};
  }
  const std::string& server = access->server;
  const std::size_t clusters = server.find(krm::kClustersPrefix);
  return server.substr(0, clusters);
}

}  // namespace kintsugi::server
