#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/siphash.h"
#include "workers/messaging/model/slab.h"
#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/messaging/pipeline/internal/entity_names.h"

namespace kintsugi::workers {

/// What is known of an entity at the component.
enum class Presence : std::uint8_t {
  kAbsent,
  kUnsure,  ///< a request for it was not answered
  kPresent  ///< with the content `applied`, all zero for another one
};
enum class Activity : std::uint8_t {
  kIdle,
  kQueued,  ///< in a ring
  kFlying,  ///< its request is not answered
  kResting  ///< it failed: until its timer
};
/// Rings of entities that may be sent, in the order of what comes first.
enum class Ring : std::uint8_t {
  kUrgent,         ///< second halves: CREATE after DELETE, READ after a conflict
  kClassSettings,  ///< that objects wait for
  kAgentFirst,
  kAgent,
  kFirst,
  kWork,
  kNewLooks,  ///< state of links that were made a moment ago
  kLooks,     ///< of others, and the like
  kSettings,  ///< all other writes of settings
  kNone
};
inline constexpr std::size_t kRings = static_cast<std::size_t>(Ring::kNone);

/// 8 bytes of content_hash(), never 0.
using EntityHash = std::uint64_t;
[[nodiscard]] EntityHash entity_hash(const DesiredEntity& entity);

/// Shape: 48 bytes, and the name: there are five of an address.
struct Entity {
  EntityHash wanted = 0, applied = 0;
  EntityName name;
  std::uint32_t holds = kNoIndex;  ///< the latest first
  std::uint32_t before = kNoIndex, after = kNoIndex;
  std::uint16_t serial = 0;  ///< of its timer
  std::uint16_t note = 0;    ///< its error
  EntityKind kind = EntityKind::kAddress;
  std::uint8_t failures = 0, looks = 0, seen = 0;
  std::uint8_t rank : 3 = 0;  ///< within an object lower ones are made before higher ones
  Presence presence : 2 = Presence::kAbsent;
  Activity activity : 2 = Activity::kIdle;
  Ring ring : 4 = Ring::kNone;
  LinkState link : 2 = LinkState::kUnknown;
  bool settled : 1 = false;   ///< as wanted
  bool pending : 1 = false;   ///< counted as not as wanted
  bool waiting : 1 = false;   ///< a link that is settled and not active
  bool verify : 1 = false;    ///< a blind CREATE is to tell whether it is there
  bool read : 1 = false;      ///< a READ is to tell what is there
  bool compare : 1 = false;   ///< a queue that waits for the list of queues
  bool cleared : 1 = false;   ///< a vhost whose aliases are emptied
  bool replace : 1 = false;   ///< an update did not do
  bool checked : 1 = false;   ///< a class that was read back
  bool negative : 1 = false;  ///< an active link that was seen inactive once
  bool foreign : 1 = false;   ///< an orphan that was found
  bool shares : 1 = false;    ///< the name of the queue or address of the same name
  bool is_new : 1 = false;    ///< a link that was made and hardly looked at since

  [[nodiscard]] bool is_used() const noexcept { return name.is_set(); }
};
static_assert(sizeof(Entity) == 48);

/// An object's interest in an entity: wanted, or no longer and still to be deleted.
struct Hold {
  static constexpr std::uint32_t kMostObjects = 0x7FFFFFFFU;
  std::uint32_t entity = kNoIndex;
  std::uint32_t object : 31 = kMostObjects;
  std::uint32_t wanted : 1 = 1;
  std::uint32_t next_of_object = kNoIndex, next_of_entity = kNoIndex, before_of_entity = kNoIndex;
};

struct ObjectRecord {
  std::uint32_t holds = kNoIndex;  ///< in the order of the object
  bool first = false, told = false;
};

/// 0 for what others wait for, rising to what waits for all others.
[[nodiscard]] std::uint8_t entity_rank(EntityKind kind, std::string_view name) noexcept;
/// The match of a settings class, "<class>.#".
[[nodiscard]] bool is_class_settings(EntityKind kind, std::string_view name) noexcept;

/// Entities by kind and name, the objects that hold them, and short texts that many may share.
/// Cost: O(1) each but where an object's few entities are walked. Threads: one at a time.
class EntityTable {
 public:
  explicit EntityTable(std::uint64_t seed) : key_{seed, ~seed} {}

  [[nodiscard]] std::uint32_t find(EntityKind kind, std::string_view name) const noexcept;
  /// @returns the entity, made if there is none.
  [[nodiscard]] std::uint32_t ensure(EntityKind kind, std::string_view name);
  void drop(std::uint32_t entity);
  [[nodiscard]] std::string name(const Entity& entity) const { return names_.text(entity.name); }
  [[nodiscard]] Entity& operator[](std::uint32_t entity) noexcept { return entities_[entity]; }
  [[nodiscard]] const Entity& operator[](std::uint32_t entity) const noexcept {
    return entities_[entity];
  }
  [[nodiscard]] std::size_t size() const noexcept { return entities_.size(); }
  [[nodiscard]] std::uint32_t end() const noexcept { return entities_.end(); }
  [[nodiscard]] std::size_t size(EntityKind kind) const noexcept {
    return by_kind_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] bool is_class(const Entity& entity) const {
    return entity.kind == EntityKind::kAddressSettings &&
           is_class_settings(entity.kind, name(entity));
  }
  /// Settings classes among them.
  [[nodiscard]] std::size_t classes() const noexcept { return classes_; }

  [[nodiscard]] ObjectRecord& object(ObjectId id);
  [[nodiscard]] const ObjectRecord* find_object(ObjectId id) const noexcept;
  [[nodiscard]] std::uint32_t objects() const noexcept {
    return static_cast<std::uint32_t>(objects_.size());
  }
  [[nodiscard]] Hold& hold(std::uint32_t index) noexcept { return holds_[index]; }
  [[nodiscard]] const Hold& hold(std::uint32_t index) const noexcept { return holds_[index]; }
  /// A new hold, in no object's list yet.
  [[nodiscard]] std::uint32_t add_hold(ObjectId object, std::uint32_t entity);
  /// Makes it the one that the entity is rendered by.
  void prefer(std::uint32_t hold);
  /// Takes it out of its entity's list and frees it; the object's list is the caller's.
  void drop_hold(std::uint32_t hold);
  /// The same, out of the object's list too.
  void remove_hold(std::uint32_t hold);
  [[nodiscard]] bool is_wanted(const Entity& entity) const noexcept {
    return entity.holds != kNoIndex && holds_[entity.holds].wanted;
  }

  /// Texts are kept once; the table holds at most 4,096 different ones, then they get general.
  void set_note(Entity& entity, std::string_view text);
  [[nodiscard]] std::string_view note(const Entity& entity) const noexcept {
    return entity.note == 0 ? std::string_view() : notes_[entity.note].text;
  }

 private:
  struct Note {
    std::string text;
    std::uint32_t uses = 0;
  };
  [[nodiscard]] std::uint64_t hash(EntityKind kind, std::string_view name) const noexcept {
    return siphash(key_, name) + static_cast<std::uint64_t>(kind) * 0x9E3779B97F4A7C15U;
  }
  [[nodiscard]] std::uint32_t twin(EntityKind kind, std::string_view name) const noexcept;
  void grow();
  void link_entity(std::uint32_t hold);
  void unlink_entity(std::uint32_t hold);

  SipKey key_;
  std::size_t classes_ = 0;
  std::array<std::size_t, kEntityKinds> by_kind_{};
  EntityNames names_;
  Slab<Entity> entities_;
  Slab<Hold> holds_;
  std::vector<ObjectRecord> objects_;
  std::vector<std::uint32_t> index_;
  std::vector<Note> notes_;
  std::vector<std::uint16_t> free_notes_;
  std::unordered_map<std::string, std::uint16_t> notes_by_text_;
};

[[nodiscard]] constexpr bool is_link_kind(EntityKind kind) noexcept {
  return kind == EntityKind::kAutoLink || kind == EntityKind::kLinkRoute;
}
[[nodiscard]] constexpr bool is_look(Ring ring) noexcept {
  return ring == Ring::kNewLooks || ring == Ring::kLooks;
}
/// Those whose state is read a second after they were made (MH-12).
[[nodiscard]] constexpr bool is_verified_kind(EntityKind kind) noexcept {
  return kind == EntityKind::kConnector || kind == EntityKind::kListener ||
         kind == EntityKind::kSslProfile;
}

/// Rings through the entities themselves. Cost: O(1).
class EntityRings {
 public:
  explicit EntityRings(EntityTable& table) : table_(table) {
    heads_.fill(kNoIndex);
    tails_.fill(kNoIndex);
  }
  void push(Ring ring, std::uint32_t entity);
  void remove(std::uint32_t entity);
  [[nodiscard]] std::uint32_t front(Ring ring) const noexcept {
    return heads_[static_cast<std::size_t>(ring)];
  }
  [[nodiscard]] bool empty(Ring ring) const noexcept { return front(ring) == kNoIndex; }

 private:
  EntityTable& table_;
  std::array<std::uint32_t, kRings> heads_{}, tails_{};
};

}  // namespace kintsugi::workers
