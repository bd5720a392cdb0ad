#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <variant>

#include "aggregation/bytes/json_list.h"
#include "aggregation/bytes/proto_split.h"

namespace kintsugi::aggregation {

/// Takes a list of objects apart as it comes, in either encoding. Threads: one at a time.
class ListReader {
 public:
  using Fault = ListSplitter::Fault;
  /// @param max_item  [bytes] of one object
  explicit ListReader(std::size_t max_item) : max_item_(max_item), splitter_(ListSplitter(0)) {}

  /// What comes from now on is a list of its own.
  void begin(bool protobuf) {
    if (protobuf) {
      splitter_.emplace<ProtoListSplitter>(max_item_);
    } else {
      splitter_.emplace<ListSplitter>(max_item_);
    }
  }
  /// As the splitters.
  Fault feed(std::string_view bytes, const std::function<void(std::string_view item)>& item) {
    return std::visit([&](auto& each) { return each.feed(bytes, item); }, splitter_);
  }
  /// The list is complete. Of protobuf: what came may be all of it, which only the end of the body
  /// tells.
  [[nodiscard]] bool done() const noexcept {
    return std::visit([](const auto& each) { return each.done(); }, splitter_);
  }
  /// What is known by now.
  [[nodiscard]] const ListEnvelope& envelope() const noexcept {
    return std::visit([](const auto& each) -> const ListEnvelope& { return each.envelope(); },
                      splitter_);
  }

 private:
  std::size_t max_item_;
  std::variant<ListSplitter, ProtoListSplitter> splitter_;
};

}  // namespace kintsugi::aggregation
