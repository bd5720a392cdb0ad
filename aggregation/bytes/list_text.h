#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_list.h"

/// The bodies of merged lists (AGG-601, AGG-1401).
namespace kintsugi::aggregation {

/// What a list says when all of it has been read.
struct ListEnd {
  std::string cursor, continue_token;
  std::string shard_info;  ///< as the first shard wrote it; "" none
};

/// JSON, written as items come: what they are, items, and `metadata` last (AGG-603).
class JsonListText {
 public:
  /// What stands before the items, once; kind and apiVersion only if they are known by now.
  void open(const ListEnvelope& envelope);
  void add(std::string_view item);
  void close(const ListEnvelope& envelope, const ListEnd& end);
  /// What has been written and not been taken.
  [[nodiscard]] std::string& out() noexcept { return out_; }

 private:
  std::string out_;
  bool opened_ = false, kind_written_ = false, has_items_ = false;
};

/// Protobuf: items wait here until all of them are known, because their size comes first.
class ProtoSpool {
 public:
  /// @param suffix  follows the item, as a part of it.
  void add(std::string_view item, std::string_view suffix);
  /// Afterwards the body is in the pieces.
  void close(const ListEnvelope& envelope, const ListEnd& end);
  /// [bytes] waiting.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }
  [[nodiscard]] std::string take_piece();

 private:
  std::deque<std::string> pieces_;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::aggregation
