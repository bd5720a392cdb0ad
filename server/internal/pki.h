#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/internal/ca_rotation.h"

namespace kintsugi::server {

/// How it stands with one CA.
struct CaStatus {
  std::vector<std::int64_t> ends;      ///< of those that are trusted [s since 1970]; issuer first
  std::optional<RotationTimes> times;  ///< of the steps to come; nullopt: it is not being changed
  bool is_changed = false;             ///< the new one issues; the old one is to leave
};

/// The certificates of an installation, below `<dir>/pki` (SE-145). Pairs are made when they are
/// missing, made again when a third of their life is over, their key is not the certificate's, they
/// are for other names or of a CA that issues no more, and kept otherwise, as is what others have
/// put in their place; keys are 0600. Readers of a pair may see the new key with the old
/// certificate for a moment. CAs are followed by others before they end. Threads, and processes:
/// any.
class Pki {
 public:
  explicit Pki(std::string folder) : folder_(std::move(folder)) {}

  /// The three CAs; certificates of the administrators, of the proxy as a server, as who asserts
  /// identities, and as itself. @error kIo, kConfig.
  [[nodiscard]] Expected<void> ensure(const std::vector<std::string>& proxy_hosts) const;
  /// Begins to replace one of authorities() by another (server/internal/ca_rotation.h); ensure()
  /// does the rest in its time. @error kConflict it goes on already; kConfig its key is not here.
  [[nodiscard]] Expected<void> begin_rotation(const std::string& ca,
                                              const RotationTimes& times) const;
  [[nodiscard]] Expected<CaStatus> status(const std::string& ca) const;
  [[nodiscard]] static const std::vector<std::string>& authorities();
  /// `<name>.crt`, `<name>.key` for a server at these DNS names and addresses, signed by the
  /// serving CA.
  [[nodiscard]] Expected<void> ensure_server(const std::string& name,
                                             const std::vector<std::string>& hosts) const;
  /// `<name>-client.crt`, `.key`: the shard itself, at other shards, signed by the client CA.
  [[nodiscard]] Expected<void> ensure_shard_client(const std::string& name) const;
  /// `<name>.crt`, `<name>.key` of a user in a group, signed by the client CA.
  [[nodiscard]] Expected<void> ensure_client(const std::string& name, const std::string& user,
                                             const std::string& group) const;
  /// `<name>.crt`, `<name>.key` of a server at these addresses that is a client of others like it,
  /// signed by the client CA.
  [[nodiscard]] Expected<void> ensure_peer(const std::string& name, const std::string& user,
                                           const std::vector<std::string>& hosts) const;
  /// Who issues for one of authorities() now. @error kIo, kConfig: its key is not here.
  [[nodiscard]] Expected<net::KeyPair> issuer(const std::string& ca) const;

  [[nodiscard]] std::string certificate(std::string_view name) const {
    return folder_ + "/" + std::string(name) + ".crt";
  }
  [[nodiscard]] std::string key(std::string_view name) const {
    return folder_ + "/" + std::string(name) + ".key";
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace kintsugi::server
