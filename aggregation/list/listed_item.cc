#include "aggregation/list/listed_item.h"

#include "aggregation/bytes/marker.h"
#include "aggregation/bytes/proto_build.h"
#include "aggregation/bytes/proto_split.h"

namespace kintsugi::aggregation {
namespace {

std::optional<ObjectFacts> facts_of(const StreamShape& shape, std::string_view item) {
  std::optional<ObjectFacts> facts = shape.coding->protobuf  ? proto_item_facts(item)
                                     : shape.kind.is_table() ? row_facts(item)
                                                             : object_facts(item);
  return facts && facts->revision != 0 && !facts->name.empty() ? facts : std::nullopt;
}

}  // namespace

std::optional<ListedItem> read_listed(const MergeOptions& options, const Member& member,
                                      const StreamShape& shape, std::string_view raw,
                                      std::string& room) {
  const std::optional<ObjectFacts> plain = facts_of(shape, raw);
  if (!plain) {
    return std::nullopt;
  }
  std::string qualified;
  const std::string_view marker = marker_of(options, member, plain->cluster, qualified);
  if (marker.empty()) {
    return ListedItem{raw, *plain};
  }
  room = shape.coding->protobuf ? std::string(raw) + proto_annotation_suffix(kMarker, marker)
                                : with_marker(raw, marker);
  const std::optional<ObjectFacts> marked = facts_of(shape, room);
  return marked ? std::optional(ListedItem{room, *marked}) : std::nullopt;
}

}  // namespace kintsugi::aggregation
