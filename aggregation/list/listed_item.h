#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "aggregation/asking/route.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/watch_coding.h"

namespace kintsugi::aggregation {

/// An item of one shard's list, as a stream of that shape would tell of it.
struct ListedItem {
  std::string_view item;  ///< with its marker: an object, a message or a row
  ObjectFacts facts;
};
/// @param raw  as the shard sent it; the result may be views of it. @param room  what else the
/// result may be views of. nullopt: it cannot be understood
[[nodiscard]] std::optional<ListedItem> read_listed(const MergeOptions& options,
                                                    const Member& member, const StreamShape& shape,
                                                    std::string_view raw, std::string& room);

}  // namespace kintsugi::aggregation
