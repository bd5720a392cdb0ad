#include "aggregation/bytes/key_names.h"

#include <functional>
#include <string_view>

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kNode = 48;  // of the map, with its place

std::uint64_t hash(std::string_view text) noexcept { return std::hash<std::string_view>()(text); }

std::uint64_t name_of(const ObjectFacts& facts) noexcept {
  return hash(facts.ns) * 0x9E3779B97F4A7C15U + hash(facts.name);
}

}  // namespace

void KeyNames::enter(const ObjectFacts& facts, std::size_t slot) {
  const Owner owner{hash(facts.uid), slot};
  const auto [at, fresh] = names_.try_emplace(name_of(facts), owner);
  if (!fresh && at->second.slot != slot && at->second.uid != owner.uid) {
    collided_(slot);
  }
}

void KeyNames::leave(const ObjectFacts& facts, std::size_t slot) {
  if (const auto found = names_.find(name_of(facts));
      found != names_.end() && found->second.slot == slot) {
    names_.erase(found);
  }
}

std::size_t KeyNames::bytes() const noexcept { return names_.size() * kNode; }

}  // namespace kintsugi::aggregation
