#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "server/layout.h"
#include "store/encryption/encrypted_store.h"
#include "store/encryption/value_codec.h"
#include "store/store.h"

/// Encryption at rest of a shard: its file, read at the start and again (SE-149).
namespace kintsugi::server {

/// <dir>/pki/encryption.yaml: used by every shard of the installation that names no other.
[[nodiscard]] std::string encryption_config_path(const Layout& layout);

/// Makes that file where there is none: a new key of 32 bytes for Secrets, plain values stay
/// readable. Mode 0600; of several processes one makes it. @error kIo, kFull.
[[nodiscard]] Expected<void> ensure_encryption_config(const Layout& layout);

/// @error kConfig names the file and what is wrong in it.
[[nodiscard]] Expected<std::shared_ptr<const store::ValueCodec>> read_encryption_config(
    const std::string& file);

/// A shard's store as everything but its writer sees it. Threads: reload() any, one at a time.
class ShardEncryption {
 public:
  /// @param file  "": that of the installation, where there is one; else nothing is encrypted.
  /// `inner` must outlive it. @error kConfig.
  [[nodiscard]] static Expected<std::unique_ptr<ShardEncryption>> open(store::Store& inner,
                                                                       const Layout& layout,
                                                                       const std::string& file);

  /// Lives as long as this does.
  [[nodiscard]] store::Store& store() noexcept { return store_; }
  /// Has to be followed; it may not be there yet.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /// Reads the file again; where it does not hold, or is gone, what was there stays. @error
  /// kConfig.
  [[nodiscard]] Expected<void> reload();

 private:
  ShardEncryption(store::Store& inner, std::string file, bool is_named)
      : store_(inner), file_(std::move(file)), is_named_(is_named) {}

  store::EncryptedStore store_;
  const std::string file_;
  const bool is_named_;  ///< it has to be there
  std::string digest_;   ///< of the content in force; "": none
};

}  // namespace kintsugi::server
