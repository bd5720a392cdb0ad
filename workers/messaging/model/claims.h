#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/model/age.h"
#include "workers/messaging/model/number_index.h"
#include "workers/messaging/model/slab.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

/// Names that one object only may have: of several that claim one the oldest has it, the others
/// wait until it is gone. Which names: of tenants `<cluster>|<ns>` (DuplicateTenant, MS-094), of
/// addresses conflict_key(Q) (AddressConflict, MS-042), of endpoints their host (HostConflict).
/// Keys are kept as 16 bytes of their SHA-256. Memory: about 40 B a claim. No I/O. Threads: one.
class OldestWins {
 public:
  /// What is kept of a name.
  using Key = std::array<unsigned char, 16>;
  [[nodiscard]] static Key key_of(std::string_view text) noexcept;

  /// Of a claimant and an owner that were made in the same second: whether the claimant takes it.
  /// Empty: by their uids.
  using TakesOver = std::function<bool(ObjectId owner)>;
  /// @returns those whose answer is another one now, the claimant among them when it does not have
  ///          the name; none: it has it.
  std::vector<ObjectId> claim(const Key& key, const Age& age, const TakesOver& takes_over = {});
  std::vector<ObjectId> claim(std::string_view name, const Age& age) {
    return claim(key_of(name), age);
  }
  /// @returns those that have the name now: the next, or none.
  std::vector<ObjectId> release(const Key& key, const Age& age);
  std::vector<ObjectId> release(std::string_view name, const Age& age) {
    return release(key_of(name), age);
  }
  /// Who has it; nullopt: nobody.
  [[nodiscard]] std::optional<ObjectId> owner(const Key& key) const;
  [[nodiscard]] std::optional<ObjectId> owner(std::string_view name) const {
    return owner(key_of(name));
  }
  [[nodiscard]] bool has(const Key& key, ObjectId object) const { return owner(key) == object; }
  [[nodiscard]] bool has(std::string_view name, ObjectId object) const {
    return has(key_of(name), object);
  }
  [[nodiscard]] std::size_t keys() const noexcept { return by_key_.size(); }

 private:
  struct Owner {
    Key key{};
    Age age;
  };
  [[nodiscard]] static std::uint64_t hash(const Key& key) noexcept;
  [[nodiscard]] std::uint32_t find(const Key& key) const;

  Slab<Owner> owners_;
  NumberIndex by_key_;
  std::map<Key, std::set<Age>> others_;
};

/// Ready=False/DuplicateTenant, DuplicateSpace: an older one of the namespace has the same id, so
/// that nobody could tell at a router or broker whose an address is;
/// Validated=False/AddressConflict; ConfiguredTLS stays alone, the endpoint's
/// Created=False/HostConflict. `other` names the one that has it.
/// @{
[[nodiscard]] Condition duplicate_tenant(std::string_view other);
[[nodiscard]] Condition duplicate_space(std::string_view other);
[[nodiscard]] Condition address_conflict(std::string_view other);
[[nodiscard]] Condition host_conflict(std::string_view host, std::string_view other);
/// @}

}  // namespace kintsugi::workers
