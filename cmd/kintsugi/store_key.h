#pragma once

#include <string>
#include <string_view>

/// Keys of a store as they are typed and printed. Pure.
namespace kintsugi::cmd {

/// Keys have NUL between their parts, here '/'; names hold no '/'. What a damaged one has else is
/// \xNN.
[[nodiscard]] std::string shown_key(std::string_view key);
/// The key that is shown like this.
[[nodiscard]] std::string stored_key(std::string_view text);

}  // namespace kintsugi::cmd
