#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/control/internal/cached.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// An Address or MessagingAddress as it was read: what Cached<T> is for other kinds, packed, since
/// there are 100,000s of them. Its key is the cache's. Shape: 40 bytes and one block of text, for a
/// queue that is Ready about 250 bytes; what the key or a flag says is not in it. Cost: reading it
/// whole takes about as long as making its few texts; what is asked for often is O(1). Threads:
/// any.
class CachedAddress {
 public:
  CachedAddress() = default;
  /// @param key  of the path: an object cannot say that it stands elsewhere.
  CachedAddress(const shards::ObjectKey& key, const krm::Json& object);

  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] bool deleting() const noexcept { return deleting_; }
  [[nodiscard]] bool reschedule() const noexcept { return reschedule_; }
  [[nodiscard]] std::int64_t generation() const noexcept { return generation_; }
  [[nodiscard]] bool has_finalizer(std::string_view finalizer) const;
  /// Name of its AddressSpace, "" for the tenant of the namespace.
  [[nodiscard]] std::string space(std::string_view name) const;
  [[nodiscard]] std::string plan() const;

  /// As parse_address() read it.
  [[nodiscard]] Parsed<MessagingAddress> parsed(const QueueKey& key) const;
  [[nodiscard]] ObjectIdentity id(const QueueKey& key) const;
  [[nodiscard]] CachedMeta meta() const;
  /// An object without one is given an empty one.
  [[nodiscard]] krm::Json status_json() const;

 private:
  /// Texts of the block, in this order, each behind its length.
  enum class Text : std::uint8_t {
    kUid,
    kVersion,
    kFinalizers,
    kSpace,
    kAddress,
    kPlan,
    kTopic,
    kStatus
  };
  /// What few have.
  struct Rare {
    AddressExtras extras;
    bool has_extras = false;
    std::vector<Condition> conditions;
  };
  [[nodiscard]] std::string_view text(Text which) const noexcept;
  [[nodiscard]] std::string uid() const;

  std::unique_ptr<char[]> block_;
  std::unique_ptr<const Rare> rare_;
  std::int64_t created_ = 0, generation_ = 0;
  std::int32_t max_consumers_ = 1;
  AddressType type_ = AddressType::kAnycast;
  bool valid_ : 1 = true;
  bool deleting_ : 1 = false;
  bool reschedule_ : 1 = false;
  bool uid_is_packed_ : 1 = false;       ///< kUid is its 16 bytes
  bool finalizer_is_ours_ : 1 = false;   ///< it has that one alone, kFinalizers is empty
  bool space_is_of_name_ : 1 = false;    ///< what stands before the first dot; kSpace is empty
  bool address_is_of_name_ : 1 = false;  ///< what stands behind it, or all; kAddress is empty
};

/// The same questions to what is kept of any kind.
/// @{
template <class T>
[[nodiscard]] const CachedMeta& meta_of(const Cached<T>& cached) noexcept {
  return cached.meta;
}
[[nodiscard]] inline CachedMeta meta_of(const CachedAddress& cached) { return cached.meta(); }
template <class T>
[[nodiscard]] const ObjectIdentity& identity_of(const Cached<T>& cached, const QueueKey&) noexcept {
  return cached.id();
}
[[nodiscard]] inline ObjectIdentity identity_of(const CachedAddress& cached, const QueueKey& key) {
  return cached.id(key);
}
/// @}

}  // namespace kintsugi::workers
