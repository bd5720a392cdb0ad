#include "server/internal/up_files.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/host_port.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "server/encryption.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/internal/up_etcd.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

std::vector<std::string> hosts_of_proxy(const UpOptions& options) {
  std::vector<std::string> hosts = {options.address, "127.0.0.1", "::1", "localhost"};
  if (!options.join_address.empty()) {
    hosts.push_back(options.join_address);
  }
  return hosts;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

Expected<void> make_folders(const UpOptions& options) {
  const Layout& layout = options.layout;
  std::vector<std::string> folders = {layout.dir, layout.run(), layout.logs(), layout.pki()};
  for (std::uint32_t i = 0; i < options.proxies; ++i) {
    folders.push_back(layout.proxy(proxy_name(i)));
  }
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    folders.push_back(layout.shard(shard_name(i)));
  }
  for (const std::string& folder : folders) {
    if (auto made = make_directories(folder); !made) {
      return made;
    }
  }
  return {};
}

/// Of proxies besides the first one: those of the first start, which kubeconfigs name.
Expected<void> find_ports(const UpOptions& options) {
  for (std::uint32_t i = 1; i < options.proxies; ++i) {
    if (port_of_proxy(options, i) != 0) {
      continue;
    }
    const auto port = free_port();
    if (!port) {
      return fail(port.error().clone());
    }
    auto written = write_file(options.layout.proxy_port(proxy_name(i)), std::to_string(*port));
    if (!written) {
      return written;
    }
  }
  return {};
}

Expected<void> write_admin_kubeconfig(const UpOptions& options) {
  const Layout& layout = options.layout;
  const Pki pki(layout.pki());
  const auto ca = read_file(pki.certificate("serving-ca"));
  const auto certificate = read_file(pki.certificate("admin"));
  const auto key = read_secret_file(pki.key("admin"));
  if (!ca || !certificate || !key) {
    return fail(Errc::kIo, "the certificates in " + layout.pki() + " cannot be read");
  }
  const std::string url = url_of_proxy(options);
  std::vector<KubeContext> contexts = {{"root", url + std::string(krm::kRootClusterPath)},
                                       {"base", url}};
  for (std::uint32_t i = 1; i < options.proxies; ++i) {
    contexts.push_back({"base-" + std::to_string(i + 1), url_of_proxy(options, i)});
  }
  return write_file(layout.admin_kubeconfig(),
                    render_kubeconfig(contexts, "kcp-admin", *ca, *certificate, key->view()), 0600);
}

/// Where the proxy is, who serves the other regions, and how their shards are reached.
std::string regions_text(const UpOptions& options, std::uint32_t index, const FarPorts& far) {
  const std::string& own = region_of(options, index);
  std::string text = "region: " + own + "\nregions:\n  urls:\n";
  for (std::uint32_t i = 0; i < std::min<std::size_t>(options.proxies, options.regions.size());
       ++i) {
    text += "    " + region_of(options, i) + ": " + url_of_proxy(options, i) + "\n";
  }
  std::string shards;
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    if (region_of(options, i) != own) {
      shards += "  " + shard_name(i) +
                ":\n    proxy_url: http://127.0.0.1:" + std::to_string(far.shards) + "\n";
    }
  }
  return shards.empty() ? text : text + "shards:\n" + shards;
}

}  // namespace

std::string shard_name(std::uint32_t index) {
  return index == 0 ? "root" : "shard-" + std::to_string(index);
}

std::string local_host(const UpOptions& options) {
  return options.address == "0.0.0.0" ? "127.0.0.1" : options.address;
}

std::string proxy_name(std::uint32_t index) {
  return index == 0 ? "proxy" : "proxy-" + std::to_string(index + 1);
}

std::uint16_t port_of_proxy(const UpOptions& options, std::uint32_t index) {
  if (index == 0) {
    return options.port;
  }
  const auto text = read_file(options.layout.proxy_port(proxy_name(index)));
  return text ? parse_decimal<std::uint16_t>(trim(*text)).value_or(0) : 0;
}

std::string url_of_proxy(const UpOptions& options, std::uint32_t index) {
  return "https://" + host_port(local_host(options), port_of_proxy(options, index));
}

const std::string& region_of(const UpOptions& options, std::uint32_t index) {
  return options.regions[index % options.regions.size()];
}

Expected<void> write_proxy_configs(const UpOptions& options, const FarPorts& far) {
  for (std::uint32_t i = 0; i < options.proxies; ++i) {
    const bool is_near = region_of(options, i) == region_of(options, 0);
    const auto store =
        proxy_store_text(options, i, is_near ? std::vector<std::uint16_t>() : far.etcd);
    if (!store) {
      return fail(store.error().clone());
    }
    auto written = write_file(options.layout.proxy_config(proxy_name(i)),
                              proxy_config_text(options, i, *store, far));
    if (!written) {
      return written;
    }
  }
  return {};
}

std::string proxy_config_text(const UpOptions& options, std::uint32_t index,
                              const std::string& store, const FarPorts& far) {
  const std::string name = proxy_name(index);
  const Layout& layout = options.layout;
  const Pki pki(layout.pki());
  std::string text = "# Written by `kintsugi up` at each start.\n";
  const auto line = [&text](std::string_view key, const std::string& value) {
    text.append(key).append(": ").append(value).append("\n");
  };
  const auto section = [&text](std::string_view key) { text.append(key).append(":\n"); };

  line("apiVersion", "kintsugi.dev/v1alpha1");
  line("kind", "ProxyConfiguration");
  line("external_url", url_of_proxy(options));  // of all: slices name it, whoever computes them
  line("data_dir", layout.proxy_data(name));
  text += store;
  if (far.shards != 0) {
    text += regions_text(options, index, far);
  }
  section("listener");
  line("  address", options.address);
  line("  port", std::to_string(port_of_proxy(options, index)));
  line("  cert_file", pki.certificate("proxy"));
  line("  key_file", pki.key("proxy"));
  section("authentication");
  line("  client_ca_file", pki.certificate("client-ca"));
  const auto list = [&](std::string_view key, const std::string& file) {
    if (!file.empty()) {
      line(key, file);
    }
  };
  list("  client_crl_file", options.revocations.client_file);
  line("  workspaces", "true");
  // ServiceAccounts of workspaces with issuers: the shard knows them.
  line("  on_failure", "pass");
  section("topology");
  line("  source", "kcp");
  line("  root_kubeconfig", layout.proxy_kubeconfig("root"));
  line("  shards_kubeconfig", layout.proxy_kubeconfig("root"));
  section("backend");
  line("  ca_file", pki.certificate("serving-ca"));
  line("  cert_file", pki.certificate("proxy-requestheader"));
  line("  key_file", pki.key("proxy-requestheader"));
  list("  crl_file", options.revocations.backend_file);
  section("crl");
  line("  stale", options.revocations.rules.stale_is_refused ? "refuse" : "warn");
  line("  required", options.revocations.rules.is_required ? "true" : "false");
  section("endpoint_slice");
  line("  mode", "proxied");
  line("  consumers", options.consumers);
  line("wildcard", options.wildcard);
  text += options.tenants.config_text() +
          options.limits.config_text(options.shards + options.proxies - 1);
  if (!options.tracing.endpoint.empty()) {
    section("tracing");
    line("  endpoint", options.tracing.endpoint);
    line("  sampling_per_million", std::to_string(options.tracing.rules.per_million));
    list("  ca_file", options.tracing.ca_file);
    list("  headers_file", options.tracing.headers_file);
  }
  section("admin");
  line("  socket", layout.admin_socket(name));
  if (options.admin_port != 0 && index == 0) {
    line("  bind", "127.0.0.1:" + std::to_string(options.admin_port));
  }
  if (options.ui || !options.workers.empty()) {
    section("ui");
    line("  enabled", options.ui ? "true" : "false");
    std::string sockets;
    for (const std::string& role : options.workers) {
      sockets += (sockets.empty() ? "" : ", ") + layout.worker_health(role);
    }
    line("  workers", "[" + sockets + "]");
  }
  return text;
}

Expected<void> prepare_installation(const UpOptions& options) {
  if (auto made = make_folders(options); !made) {
    return made;
  }
  const Pki pki(options.layout.pki());
  if (auto made = pki.ensure(hosts_of_proxy(options)); !made) {
    return made;
  }
  if (auto made = ensure_encryption_config(options.layout); !made) {
    return made;
  }
  if (auto found = find_ports(options); !found) {
    return found;
  }
  // A root kubeconfig of an earlier run stays: the root shard keeps its port when it can.
  if (auto written = write_admin_kubeconfig(options); !written) {
    return written;
  }
  ::unlink(options.layout.ready_file().c_str());
  return {};
}

Expected<bool> renew_certificates(const UpOptions& options) {
  const Layout& layout = options.layout;
  const Pki pki(layout.pki());
  if (auto made = pki.ensure(hosts_of_proxy(options)); !made) {
    return fail(std::move(made.error()));
  }
  auto text = read_secret_file(layout.admin_kubeconfig());
  auto known = text ? read_kubeconfig(layout.admin_kubeconfig(), "base")
                    : Expected<KubeAccess>(fail(text.error().clone()));
  const auto ca = read_file(pki.certificate("serving-ca"));
  const auto certificate = read_file(pki.certificate("admin"));
  const auto key = read_secret_file(pki.key("admin"));
  if (!known || !ca || !certificate || !key) {
    return fail(Errc::kIo,
                layout.admin_kubeconfig() + " or the certificates for it cannot be read");
  }
  // Users have chosen contexts in it: only what has changed is replaced.
  std::string content(text->view());
  for (const auto& [had, has] : {std::pair<std::string_view, std::string_view>(known->ca_pem, *ca),
                                 {known->certificate_pem, *certificate},
                                 {known->key_pem.view(), key->view()}}) {
    if (!had.empty() && had != has) {
      replace_all(content, base64_encode(had), base64_encode(has));
    }
  }
  const Secret next(std::move(content));
  if (next == *text) {
    return false;
  }
  if (auto written = write_file(layout.admin_kubeconfig(), next.view(), 0600); !written) {
    return fail(std::move(written.error()));
  }
  return true;
}

Expected<FileLock> lock_installation(const Layout& layout) {
  if (auto made = make_directories(layout.run()); !made) {
    return fail(std::move(made.error()));
  }
  auto lock = FileLock::take(layout.run() + "/lock");
  if (!lock && lock.error().code() == Errc::kConfig) {
    return fail(Errc::kIo, layout.dir + " is " + std::string(lock.error().message()) +
                               ", another `kintsugi up`: end it, or use another --dir");
  }
  return lock;
}

}  // namespace kintsugi::server
