#include "server/internal/pki.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "auth/certificate_end.h"
#include "auth/own_roles.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "net/x509_maker.h"
#include "server/files.h"
#include "server/internal/ca_rotation.h"
#include "server/internal/folder_lock.h"

namespace kintsugi::server {
namespace {

constexpr int kCaDays = 3650;
constexpr int kCertificateDays = 365;

Expected<void> store_pair(const Pki& pki, const std::string& name, const net::KeyPair& pair) {
  // The key first: a certificate without its key would be taken for complete.
  if (auto result = write_file(pki.key(name), pair.key_pem.view(), 0600); !result) {
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

constexpr const char* kSuffixes[] = {".crt",      ".key",     ".next.crt",
                                     ".next.key", ".old.crt", ".rotation"};

Expected<CaFiles> load_ca(const Pki& pki, const std::string& name) {
  CaFiles files;
  std::string* const texts[] = {&files.bundle, nullptr,       &files.next_certificate,
                                nullptr,       &files.former, &files.rotation};
  Secret* const keys[] = {nullptr, &files.key, nullptr, &files.next_key, nullptr, nullptr};
  for (std::size_t i = 0; i < std::size(texts); ++i) {
    const std::string path = pki.folder() + "/" + name + kSuffixes[i];
    if (!file_exists(path)) {
      continue;
    }
    if (keys[i] != nullptr) {
      auto key = read_secret_file(path);
      if (!key) {
        return fail(std::move(key.error()));
      }
      *keys[i] = std::move(*key);
      continue;
    }
    auto text = read_file(path);
    if (!text) {
      return fail(std::move(text.error()));
    }
    *texts[i] = std::move(*text);
  }
  return files;
}

Expected<void> write_ca(const Pki& pki, const std::string& name, const CaWrite& write) {
  const std::string path = pki.folder() + "/" + name + write.suffix;
  if (!write.text.empty() || !write.key.empty()) {
    return write_file(path, write.key.empty() ? std::string_view(write.text) : write.key.view(),
                      write.mode);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(Errc::kIo, path + ": " + std::strerror(errno));
  }
  return {};
}

/// A pair here that has not ended was issued by one of `former`.
bool is_old_used(const Pki& pki, const std::vector<std::string>& former) {
  const std::int64_t now = std::time(nullptr);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(pki.folder(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (former.empty() || !name.ends_with(".crt") || name.find("-ca.") != std::string::npos) {
      continue;
    }
    const auto pem = read_file(entry.path().string());
    if (pem && auth::first_end_of(*pem).value_or(0) > now &&
        std::any_of(former.begin(), former.end(), [&](const std::string& authority) {
          return net::is_issued_by(*pem, authority);
        })) {
      return true;
    }
  }
  return false;
}

/// The steps that are due now; each is whole before the next one is looked for.
Expected<void> rotate(const Pki& pki, const std::string& name,
                      std::optional<RotationTimes> begin = std::nullopt) {
  while (true) {
    auto files = load_ca(pki, name);
    if (!files) {
      return fail(std::move(files.error()));
    }
    if (files->key.empty()) {
      return {};  // somebody else issues
    }
    auto writes = plan_rotation("kintsugi-" + name, *files, std::time(nullptr),
                                is_old_used(pki, former_of(*files)), begin);
    if (!writes) {
      return fail(std::move(writes.error()).at(name));
    }
    if (writes->empty()) {
      return {};
    }
    begin.reset();
    for (const CaWrite& write : *writes) {
      if (auto written = write_ca(pki, name, write); !written) {
        return written;
      }
    }
    log_info("a step of a CA's rotation is done", {{"ca", name}});
  }
}

Expected<void> ensure_ca(const Pki& pki, const std::string& name) {
  if (file_exists(pki.certificate(name))) {
    return rotate(pki, name);
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
  auto files = load_ca(pki, ca);
  auto issuer = files ? issuer_of(*files) : Expected<net::KeyPair>(fail(files.error().clone()));
  if (!issuer) {
    return before ? Expected<void>() : fail(std::move(issuer.error()).at(ca));
  }
  if (before) {
    const std::vector<std::string> former = former_of(*files);
    const bool is_ours = net::is_issued_by(before->certificate_pem, issuer->certificate_pem);
    const bool due = net::is_due(*issuer, *before) ||
                     (is_ours && !net::is_for(before->certificate_pem, request)) ||
                     std::any_of(former.begin(), former.end(), [&](const std::string& authority) {
                       return net::is_issued_by(before->certificate_pem, authority);
                     });
    if (!due) {
      return {};
    }
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

const std::vector<std::string>& Pki::authorities() {
  static const std::vector<std::string> kNames = {"client-ca", "requestheader-ca", "serving-ca"};
  return kNames;
}

Expected<void> Pki::begin_rotation(const std::string& ca, const RotationTimes& times) const {
  const auto lock = lock_folder(folder_);
  if (!lock) {
    return fail(lock.error().clone());
  }
  auto files = load_ca(*this, ca);
  if (!files) {
    return fail(std::move(files.error()));
  }
  if (files->key.empty()) {
    return fail(Errc::kConfig, key(ca) + " is missing: who has it can change the CA");
  }
  if (times_of(*files)) {
    return fail(Errc::kConflict, ca + " is being changed already");
  }
  return rotate(*this, ca, times);
}

Expected<CaStatus> Pki::status(const std::string& ca) const {
  auto files = load_ca(*this, ca);
  if (!files) {
    return fail(std::move(files.error()));
  }
  CaStatus status;
  status.times = times_of(*files);
  status.is_changed = status.times && files->next_certificate.empty();
  for (const std::string& certificate : net::split_certificates(files->bundle)) {
    status.ends.push_back(auth::first_end_of(certificate).value_or(0));
  }
  return status;
}

Expected<void> Pki::ensure(const std::vector<std::string>& proxy_hosts) const {
  const auto lock = lock_folder(folder_);
  if (!lock) {
    return fail(lock.error().clone());
  }
  for (const std::string& ca : authorities()) {
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
      {"client-ca", "kintsugi-proxy", "kintsugi-proxy", {std::string(auth::kGroupOwnProxy)}},
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

Expected<net::KeyPair> Pki::issuer(const std::string& ca) const {
  auto files = load_ca(*this, ca);
  auto pair = files ? issuer_of(*files) : Expected<net::KeyPair>(fail(files.error().clone()));
  if (!pair) {
    return fail(std::move(pair.error()).at(ca));
  }
  return pair;
}

Expected<void> Pki::ensure_shard_client(const std::string& name) const {
  return ensure_client(name + "-client", name, std::string(auth::kGroupOwnShard));
}

Expected<void> Pki::ensure_client(const std::string& name, const std::string& user,
                                  const std::string& group) const {
  return ensure_issued(*this, "client-ca", name, client_request(user, {group}));
}

Expected<void> Pki::ensure_peer(const std::string& name, const std::string& user,
                                const std::vector<std::string>& hosts) const {
  net::CertificateRequest request = server_request(user, hosts);
  request.client = true;
  return ensure_issued(*this, "client-ca", name, request);
}

}  // namespace kintsugi::server
