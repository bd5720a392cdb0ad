#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kintsugi::server {

/// The certificates of an installation, below `<dir>/pki` (SE-145). Pairs are made when they are
/// missing, made again when a third of their life is over or their key is not the certificate's,
/// and kept otherwise, as are CAs and what others have put in their place; keys are 0600. Readers
/// of a pair may see the new key with the old certificate for a moment.
class Pki {
 public:
  explicit Pki(std::string folder) : folder_(std::move(folder)) {}

  /// The three CAs, the admin, shard-admin and proxy certificates. @error kIo, kConfig.
  [[nodiscard]] Expected<void> ensure(const std::vector<std::string>& proxy_hosts) const;
  /// `<name>.crt`, `<name>.key` for a server at these DNS names and addresses, signed by the
  /// serving CA.
  [[nodiscard]] Expected<void> ensure_server(const std::string& name,
                                             const std::vector<std::string>& hosts) const;

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
