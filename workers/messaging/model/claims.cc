#include "workers/messaging/model/claims.h"

#include <algorithm>
#include <cstring>

#include "base/digest.h"
#include "workers/messaging/model/condition_of.h"

namespace kintsugi::workers {

namespace {}  // namespace

std::size_t OldestWins::Hash::operator()(const Key& key) const noexcept {
  std::size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

OldestWins::Key OldestWins::key_of(std::string_view text) noexcept {
  const std::array<unsigned char, 32> digest = sha256(text);
  Key key{};
  std::copy_n(digest.begin(), key.size(), key.begin());
  return key;
}

std::vector<ObjectId> OldestWins::claim(const Key& key, const Age& age,
                                        const TakesOver& takes_over) {
  const auto [found, first] = owners_.try_emplace(key, age);
  if (first || found->second == age) {
    return {};
  }
  const bool wins = takes_over && age.created == found->second.created
                        ? takes_over(found->second.object)
                        : age < found->second;
  if (wins) {
    const Age other = found->second;
    const auto others = others_.find(key);
    if (others != others_.end()) {
      others->second.erase(age);
    }
    others_[key].insert(other);
    found->second = age;
    return {other.object};
  }
  others_[key].insert(age);
  return {age.object};
}

std::vector<ObjectId> OldestWins::release(const Key& key, const Age& age) {
  const auto found = owners_.find(key);
  if (found == owners_.end()) {
    return {};
  }
  const auto others = others_.find(key);
  if (found->second != age) {
    if (others != others_.end()) {
      others->second.erase(age);
      if (others->second.empty()) {
        others_.erase(others);
      }
    }
    return {};
  }
  if (others == others_.end()) {
    owners_.erase(found);
    return {};
  }
  found->second = *others->second.begin();
  others->second.erase(others->second.begin());
  if (others->second.empty()) {
    others_.erase(others);
  }
  return {found->second.object};
}

std::optional<ObjectId> OldestWins::owner(const Key& key) const {
  const auto found = owners_.find(key);
  return found == owners_.end() ? std::nullopt : std::optional(found->second.object);
}

Condition duplicate_tenant(std::string_view other) {
  return refusal("Ready", "DuplicateTenant",
                 "the namespace belongs to " + std::string(other) + ", which is older");
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
