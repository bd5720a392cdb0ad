#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

/// Files that hold private keys, tokens and what else nobody else may see (SE-142, SE-143).
namespace kintsugi {

/// What a secret file that others may read means.
enum class SecretFileRule : std::uint8_t {
  kRefuse,
  kWarn,  ///< --insecure-file-modes: read it, with a line in the log
};
/// Of the process; kRefuse until then. Threads: any.
void set_secret_file_rule(SecretFileRule rule) noexcept;

/// The content of a file that is secret: a regular file (a symbolic link on the way is followed, as
/// mounted Secrets have them), of this user or root, without any permission for others. Root's file
/// may be its group's to read where this process is not root: that is how it can be read at all.
/// @error kConfig `<path>: <what is wrong and what helps>`; never a byte of the file.
[[nodiscard]] Expected<Secret> read_secret_file(const std::string& path);

inline constexpr std::size_t kMaxSecretFile = std::size_t{8} << 20;

/// Puts `text` in the place of `path`: a new file of a random name in the same folder (O_EXCL,
/// O_NOFOLLOW), synced, renamed. Readers see the old or the new text; what a link at `path` leads
/// to is not touched. @error kIo, kFull: the old file is whole.
[[nodiscard]] Expected<void> replace_file(const std::string& path, std::string_view text,
                                          unsigned mode);
/// The same where there must be none yet: of several who try, one succeeds.
/// @returns false if there is one. @error kIo, kFull.
[[nodiscard]] Expected<bool> create_file(const std::string& path, std::string_view text,
                                         unsigned mode);

}  // namespace kintsugi
