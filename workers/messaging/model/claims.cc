#include "workers/messaging/model/claims.h"

#include <algorithm>
#include <cstring>

#include "base/digest.h"
#include "workers/messaging/model/condition_of.h"

namespace kintsugi::workers {

std::uint64_t OldestWins::hash(const Key& key) noexcept {
  std::uint64_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

std::uint32_t OldestWins::find(const Key& key) const {
  return by_key_.find(hash(key), [&](std::uint32_t at) { return owners_[at].key == key; });
}

OldestWins::Key OldestWins::key_of(std::string_view text) noexcept {
  const std::array<unsigned char, 32> digest = sha256(text);
  Key key{};
  std::copy_n(digest.begin(), key.size(), key.begin());
  return key;
}

std::vector<ObjectId> OldestWins::claim(const Key& key, const Age& age,
                                        const TakesOver& takes_over) {
  const std::uint32_t found = find(key);
  if (found == NumberIndex::kNone) {
    const std::uint32_t at = owners_.add();
    owners_[at] = {key, age};
    by_key_.add(hash(key), at, [this](std::uint32_t one) { return hash(owners_[one].key); });
    return {};
  }
  Age& owner = owners_[found].age;
  if (owner == age) {
    return {};
  }
  const bool wins =
      takes_over && age.created == owner.created ? takes_over(owner.object) : age < owner;
  if (wins) {
    const Age other = owner;
    const auto others = others_.find(key);
    if (others != others_.end()) {
      others->second.erase(age);
    }
    others_[key].insert(other);
    owner = age;
    return {other.object};
  }
  others_[key].insert(age);
  return {age.object};
}

std::vector<ObjectId> OldestWins::release(const Key& key, const Age& age) {
  const std::uint32_t found = find(key);
  if (found == NumberIndex::kNone) {
    return {};
  }
  Age& owner = owners_[found].age;
  const auto others = others_.find(key);
  if (owner != age) {
    if (others != others_.end()) {
      others->second.erase(age);
      if (others->second.empty()) {
        others_.erase(others);
      }
    }
    return {};
  }
  if (others == others_.end()) {
    by_key_.remove(hash(key), found, [this](std::uint32_t one) { return hash(owners_[one].key); });
    owners_.drop(found);
    return {};
  }
  owner = *others->second.begin();
  others->second.erase(others->second.begin());
  if (others->second.empty()) {
    others_.erase(others);
  }
  return {owner.object};
}

std::optional<ObjectId> OldestWins::owner(const Key& key) const {
  const std::uint32_t found = find(key);
  return found == NumberIndex::kNone ? std::nullopt : std::optional(owners_[found].age.object);
}

Condition duplicate_tenant(std::string_view other) {
  return refusal("Ready", "DuplicateTenant",
                 "the namespace belongs to " + std::string(other) + ", which is older");
}

Condition duplicate_space(std::string_view other) {
  return refusal("Ready", "DuplicateSpace",
                 std::string(other) + " of the namespace is older and has the same id");
}

Condition address_conflict(std::string_view other) {
  return refusal("Validated", "AddressConflict",
                 "routers cannot tell the address from that of " + std::string(other) +
                     ", which had it first");
}

Condition host_conflict(std::string_view host, std::string_view other) {
  return refusal(
      "Created", "HostConflict",
      "host " + std::string(host) + " belongs to " + std::string(other) + ", which is older");
}

}  // namespace kintsugi::workers
