#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "krm/json.h"
#include "net/x509_maker.h"

namespace kintsugi::workers {

// Certificates of listeners and connectors (11.7): what is written where, and when it is used.
// Functions of their inputs alone. Source: MS-068, MS-095. Threads: any.

inline constexpr int kAuthorityDays = 365, kLeafDays = 30;

/// What stands in one folder that routers see.
struct CertificateFiles {
  std::string certificate, authority;  ///< PEM, "" for none
  Secret key;
  [[nodiscard]] bool empty() const noexcept { return certificate.empty() && authority.empty(); }
};

/// 20 letters of the content and of whose it is: name of the folder, and part of the sslProfile's.
[[nodiscard]] std::string profile_hash(std::string_view identity, const CertificateFiles& files);
/// Name of the Secret in the infra's namespace that is mounted as that folder.
[[nodiscard]] std::string profile_secret_name(std::string_view hash);
/// Names of the Secrets with an infra's CA and with the certificate that it issued for one end.
[[nodiscard]] std::string authority_secret_name(std::string_view infra);
[[nodiscard]] std::string leaf_secret_name(std::string_view identity);

/// A Secret's object. @param written, renew  seconds since 1970, 0: not said
[[nodiscard]] krm::Json certificate_secret(std::string_view name, std::string_view ns,
                                           const CertificateFiles& files, std::int64_t written,
                                           std::int64_t renew);
/// What certificate_secret() made; members that are absent or no base64 are empty.
[[nodiscard]] CertificateFiles files_of(const krm::Json& secret);
/// One value of a Secret. nullopt: there is no such key, or it is no base64.
[[nodiscard]] std::optional<Secret> secret_value(const krm::Json& secret, std::string_view key);
/// Seconds since 1970 when it was written; 0 when it does not say.
[[nodiscard]] std::int64_t written_at(const krm::Json& secret);

/// When two thirds of so many days are over.
[[nodiscard]] constexpr std::int64_t renew_at(std::int64_t now, int days) noexcept {
  return now + std::int64_t{days} * 86'400 * 2 / 3;
}
/// Whether we wrote it; others stay as they are.
[[nodiscard]] bool is_our_secret(const krm::Json& secret) noexcept;
/// What those trust who verify by a CA that may have been made anew: it, and the one before it,
/// whose certificates may still be in use. @param before  PEM that said so until now, "" for none
[[nodiscard]] std::string trusted(const std::string& authority, const std::string& before);
/// Whether a CA or a leaf is to be made anew: it cannot be read, its time has come, it is not of
/// this CA, not for these names. @param issuer  nullptr for the CA itself
[[nodiscard]] bool is_to_be_renewed(const krm::Json& secret, const net::KeyPair* issuer,
                                    const net::CertificateRequest& request, std::int64_t now);

/// How a folder comes into use: written, seen by all routers after a while, then named.
struct ProfileFacts {
  std::string_view wanted, in_force;    ///< hashes; in_force "" for none
  std::optional<std::int64_t> written;  ///< of the wanted one's Secret; nullopt: it is not there
  std::int64_t now = 0, delay = 0;      ///< seconds
};
struct ProfileStep {
  bool write = false;
  std::string_view use;   ///< the hash that is to be in force now, "" for none yet
  std::int64_t wait = 0;  ///< seconds until the next step, 0: there is none
};
[[nodiscard]] ProfileStep profile_step(const ProfileFacts& facts) noexcept;

}  // namespace kintsugi::workers
