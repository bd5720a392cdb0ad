#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

/// Writing what others may write, too, and waiting for it: for start-up, never on a loop.
namespace kintsugi::store {

/// get(), but of a key that is not there an entry that was never modified. @error those of get().
[[nodiscard]] Expected<Entry> get_or_none(const Store& store, std::string_view key);

/// Writes a key that is still as it was read. False: somebody else was first, and what he has
/// written can be read now. @error those of commit() and synchronize().
[[nodiscard]] Expected<bool> put_compared(Store& store, std::string_view key, std::string value,
                                          Revision expected);

/// What the key has; where it is not there, `value` from now on, or what somebody else has given it
/// meanwhile. @error the same.
[[nodiscard]] Expected<std::string> get_or_put(Store& store, std::string_view key,
                                               const std::string& value);

}  // namespace kintsugi::store
