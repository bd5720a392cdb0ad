#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "base/time.h"
#include "shards/informer.h"
#include "workers/runtime/reflector/internal/cluster_lists.h"
#include "workers/runtime/reflector/internal/object_index.h"

namespace kintsugi::workers {

/// What became of one object. Views last as long as the call that got it.
struct CacheChange {
  enum class Kind : std::uint8_t { kAdded, kUpdated, kDeleted };
  shards::ObjectKey key;
  Kind kind = Kind::kAdded;
  bool initial = false;  ///< of the first list, or told to a handler that came later: priority -100
  /// An own write comes back, and brought nothing else that Projection::same looks at.
  bool echo = false;
  /// It brought nothing that Projection::same looks at, whoever wrote it.
  bool minor = false;
  /// Of kDeleted: the last state said that it would be (deletionTimestamp). Else it may as well
  /// have gone elsewhere with its cluster: Unit::when_deleted.
  bool announced = false;
  std::uint32_t uid = 0;  ///< uid_hash() of what was deleted
};

/// By which a cache knows an object from another of its name.
[[nodiscard]] inline std::uint32_t uid_hash(std::string_view uid) noexcept {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(uid));
}

/// The part of ObjectCache that does not depend on what is kept of an object: who is told, who
/// waits, own writes, indexes. Keys and revisions are those of the informer's table. No clock.
/// Source: RT-30 … RT-35.
/// Threads: the loop's. Lifetime: the informer's table outlives its use.
class CacheCore : public shards::InformerSink {
 public:
  using Id = shards::KeyTable::Id;
  using Kind = CacheChange::Kind;
  /// Longest time for which an own write hides what the watch says.
  static constexpr Duration kOverlayFor = seconds(5);

  CacheCore(std::string default_cluster, std::size_t indexes)
      : default_cluster_(std::move(default_cluster)), indexes_(indexes) {}
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;
  virtual ~CacheCore() = default;

  /// The table of the informer that fills this cache; before the first call of the sink.
  void attach(const shards::KeyTable& keys) noexcept { keys_ = &keys; }

  /// The first list is complete, or the server does not have the type. Never false again.
  [[nodiscard]] bool synced() const noexcept { return synced_; }
  /// Calls `done` once: within this call when synced, later in due() when it becomes so, or with
  /// @error kDeadline. As a coroutine: give it answer.callback() of a net::Answer<Expected<void>>.
  void when_synced(std::function<void(Expected<void>)> done, TimePoint deadline);

  /// Gets every change, those of one key in order (RT-33): kinds, no objects, which are read when
  /// the key's turn comes. What is there already is told within this call, as initial. A handler
  /// must not call the cache but for reading.
  using Handler = std::function<void(const CacheChange&)>;
  using HandlerId = std::uint32_t;
  HandlerId add_handler(Handler handler);
  void remove_handler(HandlerId id) noexcept;

  /// An own write has been answered with `object`: it is what reads give until the watch has
  /// delivered that revision or the deletion of the same object, at most kOverlayFor (RT-34). An
  /// older event that is still on its way does not bring the older state back. Nothing happens when
  /// the watch was faster. Handlers are not told.
  void lay(const krm::Json& object, TimePoint now);

  /// When due() has something to do: now or later; max(): never.
  [[nodiscard]] TimePoint deadline() const noexcept;
  /// Ends own writes and waits whose time is over. What it gives back is to be called afterwards,
  /// and may destroy the cache.
  [[nodiscard]] std::vector<std::function<void()>> due(TimePoint now);
  /// `changed` runs whenever deadline() has become earlier.
  void on_deadline(std::function<void()> changed) { on_deadline_ = std::move(changed); }

  [[nodiscard]] std::size_t size() const noexcept { return keys_ == nullptr ? 0 : keys_->size(); }
  [[nodiscard]] std::size_t overlays() const noexcept { return laid_.size(); }
  /// Heap in use for all but the keys (KeyTable::bytes()) and what objects allocate [bytes].
  [[nodiscard]] virtual std::size_t bytes() const noexcept;

  /// One of the objects that the watch has of a cluster. Cost: O(1).
  [[nodiscard]] std::optional<shards::ObjectKey> any_of(std::string_view cluster) const;
  /// shards::revision_number() of what the watch has under that key.
  [[nodiscard]] std::optional<std::uint64_t> revision(const shards::ObjectKey& key) const;

  // InformerSink.
  void on_upsert(const shards::ObjectKey& key, const krm::Json& object) final;
  void on_delete(const shards::ObjectKey& key) final;
  void on_synced() final;

 protected:
  static constexpr Id kOverlay = ObjectIndex::kOther;  // marks numbers of own writes

  /// @param before  what it takes the place of; kNone: nothing
  /// @returns whether Projection::same says that it is the same
  virtual bool store(Id id, const shards::ObjectKey& key, const krm::Json& object,
                     Id before = shards::KeyTable::kNone) = 0;
  virtual void discard(Id id) = 0;
  [[nodiscard]] virtual bool holds(Id id) const noexcept = 0;
  /// Hash of the uid of an object that is held.
  [[nodiscard]] virtual std::uint32_t uid(Id id) const noexcept = 0;
  /// Whether an object that is held said that it would be deleted.
  [[nodiscard]] virtual bool leaving(Id id) const noexcept = 0;
  virtual void collect(std::size_t index, Id id, const shards::ObjectKey& key,
                       IndexValues& values) const = 0;

  /// What reads give for that key; kNone: nothing.
  [[nodiscard]] Id visible(const shards::ObjectKey& key) const;
  [[nodiscard]] shards::ObjectKey key_of(Id id) const noexcept;
  [[nodiscard]] const ObjectIndex& index(std::size_t at) const noexcept { return indexes_[at]; }
  /// All that reads give.
  template <class Visit>
  void each_visible(Visit&& visit) const {
    for (Id id = 0; keys_ != nullptr && id < keys_->end_id(); ++id) {
      if (holds(id) && (laid_.empty() || laid_.count(keys_->key(id)) == 0)) {
        visit(id);
      }
    }
    for (const auto& [key, slot] : laid_) {
      visit(kOverlay | slot);
    }
  }

 private:
  struct Overlay {
    std::string key;
    std::uint64_t revision = 0;
    TimePoint until{};
    bool used = false;
  };
  struct Waiter {
    std::function<void(Expected<void>)> done;
    TimePoint deadline;
  };
  struct Listener {
    HandlerId id;
    Handler handler;
  };
  static constexpr std::size_t kRecent = 1'024;  // deliveries, own writes remembered
  /// A ring of marks of (key, revision).
  struct Marks {
    std::vector<std::uint64_t> all;
    std::size_t at = 0;
    void add(std::string_view key, std::uint64_t revision);
    [[nodiscard]] bool has(std::string_view key, std::uint64_t revision) const noexcept;
  };

  void tell(const CacheChange& change);
  void set_indexes(Id id, const shards::ObjectKey& key);
  void remove_from_indexes(Id id);
  void lift(std::uint32_t slot);
  [[nodiscard]] std::string_view text_of(const shards::ObjectKey& key) const;
  void note_deadline(TimePoint before) const;

  std::string default_cluster_;
  std::vector<ObjectIndex> indexes_;
  ClusterLists clusters_;  // of what the watch has
  const shards::KeyTable* keys_ = nullptr;
  bool synced_ = false;
  std::vector<Listener> listeners_;
  HandlerId next_listener_ = 1;
  std::vector<Waiter> waiters_;
  std::vector<Overlay> overlays_;
  std::vector<std::uint32_t> free_overlays_;
  StringMap<std::uint32_t> laid_;  // key -> overlay
  Marks recent_, echoes_;          // last deliveries behind the first list; see CacheChange
  IndexValues values_;             // scratch
  mutable std::string text_;       // scratch
  std::function<void()> on_deadline_;
};

}  // namespace kintsugi::workers
