#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "workers/runtime/reflector/internal/cache_core.h"

namespace kintsugi::workers {

/// What a role keeps of the objects of one resource (RT-30): its own struct, made of the parsed
/// object, of which nothing else stays. Declared once, at start.
template <class T>
struct Projection {
  /// Must not fail: what an object lacks is empty in T.
  std::function<T(const shards::ObjectKey& key, const krm::Json& object)> make;
  struct Index {
    std::string name;
    /// Adds the values by which the object is found. Values of different clusters meet unless they
    /// begin with the cluster.
    std::function<void(const shards::ObjectKey& key, const T& object, IndexValues& values)> values;
  };
  std::vector<Index> indexes;
  /// Whether an own write, laid over `before`, brought nothing of somebody else's that the role
  /// Whether `after` brings nothing over `before` that the role acts upon: the echo of an own write
  /// is told as such, what others wrote as minor. Empty: no.
  std::function<bool(const T& before, const T& after)> same;
};

/// The objects of one (unit, resource, selector, projection), as far as the role wants to know
/// them. Filled by an informer with the rules of a reflector; keys are (cluster, namespace, name),
/// and stand in the informer's table only. Cost: 16 bytes an object beside T and its share of
/// indexes (bench/object_cache.cc); find O(1) without an allocation, index lookup O(1) + result.
/// Threads: the loop's. Lifetime of what reads give: until the cache is changed, that is until the
/// caller lets the loop go on.
template <class T>
class ObjectCache final : public CacheCore {
 public:
  ObjectCache(Projection<T> projection, std::string default_cluster)
      : CacheCore(std::move(default_cluster), projection.indexes.size()),
        projection_(std::move(projection)) {}

  /// @returns nullptr: there is no such object.
  /// @error kUnavailable  not found, but the first list is not complete (RT-32): see when_synced.
  [[nodiscard]] Expected<const T*> find(const shards::ObjectKey& key) const {
    if (const Id id = visible(key); id != shards::KeyTable::kNone && holds(id)) {
      return &get(id);
    }
    if (!synced()) {
      return fail(Errc::kUnavailable);
    }
    return nullptr;
  }
  /// Calls `visit(const ObjectKey&, const T&)` for each object with that value, in no order.
  /// @param index position in Projection::indexes.
  /// @error kUnavailable  the first list is not complete.
  template <class Visit>
  [[nodiscard]] Expected<void> lookup(std::size_t index, std::string_view value,
                                      Visit&& visit) const {
    if (!synced()) {
      return fail(Errc::kUnavailable);
    }
    this->index(index).each(value, [&](Id id) { visit(key_of(id), get(id)); });
    return {};
  }
  /// All objects, in no order; for start-up and checks, not for reconciling (RT-35).
  /// @error kUnavailable  the first list is not complete.
  template <class Visit>
  [[nodiscard]] Expected<void> each(Visit&& visit) const {
    if (!synced()) {
      return fail(Errc::kUnavailable);
    }
    each_known(visit);
    return {};
  }
  /// Those that are known so far: what the first list brings later is told as changes.
  template <class Visit>
  void each_known(Visit&& visit) const {
    each_visible([&](Id id) { visit(key_of(id), get(id)); });
  }

  [[nodiscard]] std::size_t bytes() const noexcept override {
    return CacheCore::bytes() + (objects_.size() + own_.size()) * sizeof(Chunk) +
           (objects_.capacity() + own_.capacity()) * sizeof(objects_.front());
  }

 private:
  static constexpr std::size_t kChunk = 256;
  class Slot {
   public:
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { clear(); }
    void set(T object, std::uint32_t new_uid, bool is_leaving) {
      clear();
      new (static_cast<void*>(bytes_)) T(std::move(object));
      held = true;
      uid = new_uid;
      leaving = is_leaving;
    }
    void clear() noexcept {
      if (std::exchange(held, false)) {
        std::launder(reinterpret_cast<T*>(bytes_))->~T();
      }
    }
    [[nodiscard]] const T& get() const noexcept {
      return *std::launder(reinterpret_cast<const T*>(bytes_));
    }

   private:
    alignas(T) std::byte bytes_[sizeof(T)];

   public:
    std::uint32_t uid = 0;
    bool held = false, leaving = false;
  };
  struct Chunk {
    Slot slots[kChunk];
  };
  using Chunks = std::vector<std::unique_ptr<Chunk>>;

  [[nodiscard]] const Slot* slot(Id id) const noexcept {
    const Chunks& chunks = (id & kOverlay) == 0 ? objects_ : own_;
    const std::size_t at = id & ~kOverlay;
    return at / kChunk < chunks.size() ? &chunks[at / kChunk]->slots[at % kChunk] : nullptr;
  }
  [[nodiscard]] const T& get(Id id) const noexcept { return slot(id)->get(); }

  bool store(Id id, const shards::ObjectKey& key, const krm::Json& object, Id before) override {
    Chunks& chunks = (id & kOverlay) == 0 ? objects_ : own_;
    const std::size_t at = id & ~kOverlay;
    while (at / kChunk >= chunks.size()) {
      chunks.push_back(std::make_unique<Chunk>());
    }
    const krm::Json* const meta = object.find("metadata");
    const std::uint32_t uid = uid_hash(meta == nullptr ? std::string_view() : meta->text({"uid"}));
    const bool leaving = meta != nullptr && meta->find("deletionTimestamp") != nullptr;
    T made = projection_.make(key, object);
    const Slot* const was = before == shards::KeyTable::kNone ? nullptr : slot(before);
    const bool same = projection_.same && was != nullptr && was->held && was->uid == uid &&
                      projection_.same(was->get(), made);
    chunks[at / kChunk]->slots[at % kChunk].set(std::move(made), uid, leaving);
    return same;
  }
  void discard(Id id) override {
    if (const Slot* const at = slot(id); at != nullptr) {
      const_cast<Slot*>(at)->clear();
    }
  }
  [[nodiscard]] bool holds(Id id) const noexcept override {
    const Slot* const at = slot(id);
    return at != nullptr && at->held;
  }
  [[nodiscard]] std::uint32_t uid(Id id) const noexcept override { return slot(id)->uid; }
  [[nodiscard]] bool leaving(Id id) const noexcept override { return slot(id)->leaving; }
  void collect(std::size_t index, Id id, const shards::ObjectKey& key,
               IndexValues& values) const override {
    projection_.indexes[index].values(key, get(id), values);
  }

  Projection<T> projection_;
  Chunks objects_, own_;
};

}  // namespace kintsugi::workers
