#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

namespace kintsugi::server {

/// What stands between a backup's files and its reader: nothing, or a key of whoever made it
/// (GR-404). Files are sealed in blocks of 1 MiB with AES-256-GCM, bound to the backup, the file
/// and the block's number; the key is derived (HKDF-SHA-256, RFC 5869) from the given one and the
/// backup's id. Threads: any, immutable.
class BackupSeal {
 public:
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  BackupSeal() = default;
  /// @param key  as given; @param id  of the backup
  BackupSeal(const Secret& key, std::string_view id);

  [[nodiscard]] bool has_key() const noexcept { return !blocks_.empty(); }
  [[nodiscard]] std::string seal(std::string_view file, std::string plain) const;
  /// @error kCorrupt another key, another file, or not what was sealed.
  [[nodiscard]] Expected<std::string> open(std::string_view file, std::string sealed) const;
  /// 64 hex digits that vouch for a text: a MAC by the key, or a digest where there is none.
  [[nodiscard]] std::string mark_of(std::string_view text) const;

 private:
  std::string id_;
  Secret blocks_, marks_;
};

/// The first 32 bytes of HKDF-SHA-256.
[[nodiscard]] Secret derived_key(const Secret& key, std::string_view salt, std::string_view info);

}  // namespace kintsugi::server
