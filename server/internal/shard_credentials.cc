#include "server/internal/shard_credentials.h"

#include <utility>

#include "auth/certificate_end.h"
#include "server/files.h"
#include "server/shard_files.h"

namespace kintsugi::server {
namespace {

constexpr const char* kServingCa = "serving-ca";
constexpr const char* kClientCa = "client-ca";
constexpr const char* kRequestHeaderCa = "requestheader-ca";
constexpr const char* kShardAdmin = "shard-admin";  // in its kubeconfig alone, for people
constexpr const char* kProxy = "kintsugi-proxy";

}  // namespace

ShardCredentials::ShardCredentials(const Layout& layout, const std::string& shard,
                                   ShardRevocations revocations)
    : layout_(layout),
      pki_(layout.pki()),
      name_("shard-" + shard),
      revocations_(std::move(revocations)) {}

Expected<void> ShardCredentials::ensure(std::vector<std::string> hosts) const {
  hosts.insert(hosts.end(), {"127.0.0.1", "::1", "localhost"});
  if (auto made = pki_.ensure_server(name_, hosts); !made) {
    return made;
  }
  return pki_.ensure_shard_client(name_);
}

Expected<std::shared_ptr<net::TlsContext>> ShardCredentials::load_tls() const {
  net::TlsParams tls;
  tls.certificate_file = pki_.certificate(name_);
  tls.key_file = pki_.key(name_);
  tls.client_ca_files = {pki_.certificate(kClientCa), pki_.certificate(kRequestHeaderCa)};
  tls.request_client_certificate = true;
  return net::TlsContext::server(tls);
}

Expected<ShardCredentials::Serving> ShardCredentials::load_serving() const {
  auto tls = load_tls();
  if (!tls) {
    return fail(std::move(tls.error()));
  }
  auto callers = auth::load_ca_bundles(
      pki_.certificate(kClientCa), pki_.certificate(kRequestHeaderCa),
      {revocations_.client_file, revocations_.request_header_file, revocations_.rules});
  if (!callers) {
    return fail(std::move(callers.error()));
  }
  auto keys = ensure_account_keys(layout_);
  if (!keys) {
    return fail(std::move(keys.error()));
  }
  return Serving{std::move(*tls), std::move(*callers), std::move(*keys)};
}

Expected<std::shared_ptr<net::TlsContext>> ShardCredentials::load_outgoing() const {
  auto authorities = root_ca();
  if (!authorities) {
    return fail(std::move(authorities.error()));
  }
  auto lists = auth::load_revocations(revocations_.backend_file, *authorities, revocations_.rules);
  if (!lists) {
    return fail(std::move(lists.error()));
  }
  net::TlsParams client;
  client.ca_file = pki_.certificate(kServingCa);
  client.certificate_file = pki_.certificate(name_ + "-client");
  client.key_file = pki_.key(name_ + "-client");
  client.revocations = std::move(*lists);
  return net::TlsContext::client(client);
}

Expected<std::string> ShardCredentials::root_ca() const {
  return read_file(pki_.certificate(kServingCa));
}

std::vector<CertificateEnd> ShardCredentials::ends() const {
  std::vector<CertificateEnd> out;
  for (const auto& [use, name] : {std::pair<const char*, std::string>("serving", name_),
                                  {"client", name_ + "-client"},
                                  {"client", kShardAdmin},
                                  {"client", kProxy},
                                  {"ca", kServingCa},
                                  {"ca", kClientCa},
                                  {"ca", kRequestHeaderCa}}) {
    const auto pem = read_file(pki_.certificate(name));
    if (const auto end = auth::first_end_of(pem ? *pem : "")) {
      out.push_back({use, name, *end});
    }
  }
  return out;
}

std::vector<std::string> ShardCredentials::followed() const {
  std::vector<std::string> files = {pki_.certificate(name_),
                                    pki_.key(name_),
                                    pki_.certificate(kClientCa),
                                    pki_.certificate(kRequestHeaderCa),
                                    pki_.certificate(kServingCa),
                                    pki_.certificate(kShardAdmin),
                                    pki_.key(kShardAdmin),
                                    pki_.certificate(kProxy),
                                    pki_.key(kProxy),
                                    pki_.certificate(name_ + "-client"),
                                    pki_.key(name_ + "-client"),
                                    account_key_file(layout_)};
  for (const std::string& list :
       {revocations_.client_file, revocations_.request_header_file, revocations_.backend_file}) {
    if (!list.empty()) {
      files.push_back(list);
    }
  }
  return files;
}

}  // namespace kintsugi::server
