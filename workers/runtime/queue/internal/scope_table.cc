#include "workers/runtime/queue/internal/scope_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kintsugi::workers {
namespace {

// A block: users, lengths of both texts, the texts.
struct Head {
  std::uint32_t users;
  std::uint8_t cluster;
  std::uint8_t ns;
};
constexpr std::size_t kHead = 6;
constexpr std::size_t kAhead = 16;  // texts that are fetched before they are read

Head head_of(TextSlab::Ref scope, const TextSlab& texts) noexcept {
  Head head{};
  std::memcpy(&head, texts.at(scope), kHead);
  return head;
}

}  // namespace

std::uint64_t ScopeTable::hash_of(std::string_view cluster, std::string_view ns) const noexcept {
  const std::uint64_t first = XXH3_64bits_withSeed(cluster.data(), cluster.size(), seed_);
  return XXH3_64bits_withSeed(ns.data(), ns.size(), first);
}

std::string_view ScopeTable::cluster(Ref scope, const TextSlab& texts) noexcept {
  return {texts.at(scope) + kHead, head_of(scope, texts).cluster};
}

std::string_view ScopeTable::ns(Ref scope, const TextSlab& texts) noexcept {
  const Head head = head_of(scope, texts);
  return {texts.at(scope) + kHead + head.cluster, head.ns};
}

bool ScopeTable::matches(Ref scope, std::string_view cluster_text, std::string_view ns_text,
                         const TextSlab& texts) noexcept {
  return cluster(scope, texts) == cluster_text && ns(scope, texts) == ns_text;
}

std::size_t ScopeTable::home_of(Ref scope, const TextSlab& texts) const noexcept {
  return home(hash_of(cluster(scope, texts), ns(scope, texts)));
}

bool ScopeTable::insert(Ref scope, std::size_t place) noexcept {
  std::size_t at = place;
  for (std::size_t i = 0; i <= farthest(); ++i) {
    if (slots_[at] == 0) {
      slots_[at] = slot_of(scope, place);
      return true;
    }
    at = (at + 1) & mask();
  }
  return false;
}

/// Makes more slots than that if some pair would stand too far from its place.
void ScopeTable::rebuild(std::size_t slots, unsigned bits, const TextSlab& texts) {
  std::vector<Ref> all;
  all.reserve(size_);
  for (const std::uint32_t slot : slots_) {
    if (slot != 0) {
      all.push_back(scope_in(slot));
    }
  }
  bits_ = bits;
  bool done = false;
  for (; !done; slots *= 2) {
    std::vector<std::uint32_t>().swap(slots_);
    slots_.assign(slots, 0);
    done = true;
    for (std::size_t i = 0; i < all.size() && done; ++i) {
      __builtin_prefetch(texts.at(all[std::min(i + kAhead, all.size() - 1)]));
      done = insert(all[i], home_of(all[i], texts));
    }
  }
}

ScopeTable::Ref ScopeTable::take(std::string_view cluster_text, std::string_view ns_text,
                                 std::uint64_t hash, TextSlab& texts) {
  if ((size_ + 1) * 4 > slots_.size() * 3) {
    rebuild(slots_.empty() ? 16 : slots_.size() * 2, bits_, texts);
  }
  std::size_t at = home(hash);
  for (std::size_t i = 0; slots_[at] != 0 && i <= farthest(); ++i) {
    const Ref scope = scope_in(slots_[at]);
    if (distance(at) == i && matches(scope, cluster_text, ns_text, texts)) {
      const std::uint32_t users = head_of(scope, texts).users + 1;
      std::memcpy(texts.at(scope), &users, sizeof users);
      return scope;
    }
    at = (at + 1) & mask();
  }
  const Ref scope = texts.allocate(kHead + cluster_text.size() + ns_text.size());
  const Head head{1, static_cast<std::uint8_t>(cluster_text.size()),
                  static_cast<std::uint8_t>(ns_text.size())};
  char* text = texts.at(scope);
  std::memcpy(text, &head, kHead);
  text += kHead;
  text += cluster_text.copy(text, cluster_text.size());
  ns_text.copy(text, ns_text.size());
  if (scope + 1 >= std::uint32_t{1} << bits_) {
    rebuild(slots_.size(), static_cast<unsigned>(std::bit_width(scope + 1)) + 1, texts);
  }
  while (!insert(scope, home(hash))) {
    rebuild(slots_.size() * 2, bits_, texts);
  }
  ++size_;
  return scope;
}

void ScopeTable::drop(Ref scope, TextSlab& texts) noexcept {
  Head head = head_of(scope, texts);
  if (--head.users > 0) {
    std::memcpy(texts.at(scope), &head.users, sizeof head.users);
    return;
  }
  std::size_t hole = home_of(scope, texts);
  const std::uint32_t slot = slot_of(scope, hole);
  while (slots_[hole] != slot) {
    hole = (hole + 1) & mask();
  }
  // Whoever would no longer be found behind the hole moves into it.
  for (std::size_t i = (hole + 1) & mask(); slots_[i] != 0; i = (i + 1) & mask()) {
    if (distance(i) >= ((i - hole) & mask())) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = 0;
  --size_;
  texts.release(scope, kHead + head.cluster + head.ns);
}

void ScopeTable::clear() noexcept {
  std::vector<std::uint32_t>().swap(slots_);
  size_ = 0;
}

}  // namespace kintsugi::workers
