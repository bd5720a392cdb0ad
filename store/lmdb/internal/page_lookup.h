#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/lmdb/internal/page_format.h"
#include "store/lmdb/internal/page_walk.h"

namespace kintsugi::store::pages {

/// A value that stands in its leaf, found from the root as LMDB finds it, but believing nothing.
/// @returns nullopt: it is not found, for whatever reason
[[nodiscard]] std::optional<std::string> find_value(const ReadAt& read, const Meta& meta,
                                                    const Table& table, std::string_view key);

}  // namespace kintsugi::store::pages
