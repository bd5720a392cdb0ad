#include "server/internal/pki.h"

#include "base/secret_file.h"
#include "net/x509_maker.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

constexpr int kCaDays = 3650;
constexpr int kCertificateDays = 365;

Expected<void> store_pair(const Pki& pki, const std::string& name, const net::KeyPair& pair) {
  // The key first: a certificate without its key would be taken for complete.
  if (auto result = write_file(pki.key(name), pair.key_pem, 0600); !result) {
    return result;
  }
  return write_file(pki.certificate(name), pair.certificate_pem);
}

Expected<net::KeyPair> load_pair(const Pki& pki, const std::string& name) {
  auto certificate = read_file(pki.certificate(name));
  auto key = read_secret_file(pki.key(name));
  if (!certificate || !key) {
    return fail(std::move(!certificate ? certificate.error() : key.error()));
  }
  return net::KeyPair{std::move(*certificate), std::move(*key)};
}

Expected<void> ensure_ca(const Pki& pki, const std::string& name) {
  if (file_exists(pki.certificate(name))) {
    return {};
  }
  auto pair = net::make_ca("kintsugi-" + name, kCaDays);
  if (!pair) {
    return fail(std::move(pair.error()));
  }
  return store_pair(pki, name, *pair);
}

Expected<void> ensure_issued(const Pki& pki, const std::string& ca, const std::string& name,
                             const net::CertificateRequest& request) {
  const auto before = load_pair(pki, name);
  if (!before && file_exists(pki.certificate(name))) {
    return {};
  }
  auto issuer = load_pair(pki, ca);
  if (!issuer) {
    return before ? Expected<void>() : fail(std::move(issuer.error()));
  }
  if (before && !net::is_due(*issuer, *before)) {
    return {};
  }
  auto pair = net::issue(*issuer, request);
  if (!pair) {
    return fail(std::move(pair.error()).at(name));
  }
  return store_pair(pki, name, *pair);
}

net::CertificateRequest server_request(const std::string& name,
                                       const std::vector<std::string>& hosts) {
  net::CertificateRequest request;
  request.common_name = name;
  request.days = kCertificateDays;
  request.server = true;
  for (const std::string& host : hosts) {
    const bool address = host.find(':') != std::string::npos ||
                         host.find_first_not_of("0123456789.") == std::string::npos;
    (address ? request.ip_addresses : request.dns_names).push_back(host);
  }
  return request;
}

net::CertificateRequest client_request(const std::string& user, std::vector<std::string> groups) {
  net::CertificateRequest request;
  request.common_name = user;
  request.organizations = std::move(groups);
  request.days = kCertificateDays;
  request.client = true;
  return request;
}

}  // namespace

Expected<void> Pki::ensure(const std::vector<std::string>& proxy_hosts) const {
  for (const char* ca : {"client-ca", "requestheader-ca", "serving-ca"}) {
    if (auto result = ensure_ca(*this, ca); !result) {
      return result;
    }
  }
  if (auto result = ensure_server("proxy", proxy_hosts); !result) {
    return result;
  }
  struct Client {
    const char* ca;
    const char* name;
    const char* user;
    std::vector<std::string> groups;
  };
  const Client clients[] = {
      {"client-ca", "admin", "kcp-admin", {"system:kcp:admin"}},
      {"client-ca", "shard-admin", "shard-admin", {"system:masters"}},
      {"requestheader-ca", "proxy-requestheader", "kcp-front-proxy", {}},
  };
  for (const Client& client : clients) {
    if (auto result = ensure_issued(*this, client.ca, client.name,
                                    client_request(client.user, client.groups));
        !result) {
      return result;
    }
  }
  return {};
}

Expected<void> Pki::ensure_server(const std::string& name,
                                  const std::vector<std::string>& hosts) const {
  return ensure_issued(*this, "serving-ca", name, server_request(name, hosts));
}

}  // namespace kintsugi::server
