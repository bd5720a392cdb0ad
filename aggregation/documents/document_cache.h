#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/bytes.h"

namespace kintsugi::aggregation {

/// A document as it was answered last.
struct KnownDocument {
  std::string etag;    ///< without quotes; "": it had none
  std::string type;    ///< Content-Type
  std::string digest;  ///< SHA-256 of the bytes, in hex
  SharedBytes bytes;
};
using KnownDocumentPtr = std::shared_ptr<const KnownDocument>;

/// SHA-256 in hex.
[[nodiscard]] std::string content_digest(std::string_view bytes);

/// Discovery and OpenAPI documents of the shards, and what was made of them: what is known of a
/// shard that is down (AGG-1602), and what need not be sent or made again. Equal documents of
/// several shards are held once. The ones that nobody used for longest go first.
/// Threads: any; nothing is done under the lock but moving pointers.
class DocumentCache {
 public:
  /// @param limit [bytes] of all documents; one of more than a quarter of it is not kept.
  explicit DocumentCache(std::size_t limit = std::size_t{64} << 20) : limit_(limit) {}
  DocumentCache(const DocumentCache&) = delete;
  DocumentCache& operator=(const DocumentCache&) = delete;

  /// Null: not known.
  [[nodiscard]] KnownDocumentPtr find(const std::string& key);
  /// Takes the place of what was known before. @return it, also when it is not kept.
  KnownDocumentPtr put(const std::string& key, std::string_view etag, std::string_view type,
                       std::string_view body);
  void forget(const std::string& key);
  /// @{ How often what a shard serves was seen to be another than before, or for the first time.
  void note_change() noexcept { ++changes_; }
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }  /// @}
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::string key;
    KnownDocumentPtr document;
  };
  struct Body {
    SharedBytes bytes;
    std::size_t users = 0;
  };
  void erase(std::list<Entry>::iterator entry);

  const std::size_t limit_;
  std::atomic<std::uint64_t> changes_ = 0;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the newest use first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::unordered_map<std::string, Body> bodies_;  // by digest
  std::size_t bytes_ = 0;
};

}  // namespace kintsugi::aggregation
