#include "aggregation/watch/internal/group_bookmark.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kintsugi::aggregation {

GroupBookmark::GroupBookmark(Asking& shared, ShardQuestion& question, GroupStreams& streams,
                             GroupReaders& readers)
    : shared_(shared), question_(question), streams_(streams), readers_(readers) {}

const WatchCoding& GroupBookmark::coding() noexcept {
  if (question_.shape.coding == nullptr) {  // every shard speaks JSON
    const bool json =
        !accept_only(question_.head.headers.get("accept"), json_coding().media_type).empty();
    question_.shape.coding = json ? &json_coding() : &protobuf_coding();
  }
  return *question_.shape.coding;
}

void GroupBookmark::take(const ObjectFacts& facts, std::string_view columns) {
  if (!question_.shape.kind.known() && !facts.kind.empty()) {
    question_.shape.kind = {std::string(facts.kind), std::string(facts.api_version)};
  }
  if (columns_.empty()) {
    columns_ = columns;
    question_.shape.kind.cells = std::max<std::size_t>(count_columns(columns), 1);
  }
}

void GroupBookmark::find_kind() {
  if (question_.shape.kind.known() || kind_probe_ != nullptr) {
    return;
  }
  kind_probe_ = std::make_unique<ListProbe>(
      shared_, question_, std::nullopt, [this](const ListEnvelope& list) {
        if (!question_.shape.kind.known()) {
          question_.shape.kind = {list.kind, list.api_version};
          if (list.kind.ends_with("List")) {
            question_.shape.kind.kind.resize(list.kind.size() - 4);
          }
        }
        if (columns_.empty()) {
          learn({}, list.columns);
        }
        readers_.each([](GroupReader& reader) { reader.on_group_moved(); });
        shared_.loop.post(alive_.guard([this] { kind_probe_.reset(); }));
      });
  kind_probe_->start();
}

const SharedBytes& GroupBookmark::text(const CursorCodec& codec) {
  if (text_.empty() || codec.is_sequence()) {
    Components components(codec.history().current().uids.size());
    for (const auto& [slot, followed] : streams_.slots()) {
      components[slot] = followed.stream->position();
    }
    // The number of a vector grows when later vectors have got theirs: a reader may have had one.
    std::string cursor = codec.format(components);
    if (text_.empty() || cursor != cursor_) {
      text_ = SharedBytes(coding().bookmark(question_.shape.kind, cursor, false, {}));
      cursor_ = std::move(cursor);
    }
  }
  return text_;
}

}  // namespace kintsugi::aggregation
