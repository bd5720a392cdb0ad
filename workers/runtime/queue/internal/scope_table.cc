#include "workers/runtime/queue/internal/scope_table.h"

#include <cstring>
#include <utility>

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

void ScopeTable::grow(const TextSlab& texts) {
  const std::vector<std::uint32_t> old = std::exchange(slots_, {});
  slots_.assign(old.empty() ? 16 : old.size() * 2, 0);
  for (const std::uint32_t slot : old) {
    if (slot != 0) {
      std::size_t i = home_of(slot - 1, texts);
      while (slots_[i] != 0) {
        i = (i + 1) & (slots_.size() - 1);
      }
      slots_[i] = slot;
    }
  }
}

ScopeTable::Ref ScopeTable::take(std::string_view cluster_text, std::string_view ns_text,
                                 std::uint64_t hash, TextSlab& texts) {
  // Fuller than the index of keys: asked for new keys only, and one slot a key where none share.
  if ((size_ + 1) * 8 > slots_.size() * 7) {
    grow(texts);
  }
  std::size_t i = home(hash);
  for (; slots_[i] != 0; i = (i + 1) & (slots_.size() - 1)) {
    const Ref scope = slots_[i] - 1;
    if (matches(scope, cluster_text, ns_text, texts)) {
      const std::uint32_t users = head_of(scope, texts).users + 1;
      std::memcpy(texts.at(scope), &users, sizeof users);
      return scope;
    }
  }
  const Ref scope = texts.allocate(kHead + cluster_text.size() + ns_text.size());
  const Head head{1, static_cast<std::uint8_t>(cluster_text.size()),
                  static_cast<std::uint8_t>(ns_text.size())};
  char* at = texts.at(scope);
  std::memcpy(at, &head, kHead);
  at += kHead;
  at += cluster_text.copy(at, cluster_text.size());
  ns_text.copy(at, ns_text.size());
  slots_[i] = scope + 1;
  ++size_;
  return scope;
}

void ScopeTable::drop(Ref scope, TextSlab& texts) noexcept {
  Head head = head_of(scope, texts);
  if (--head.users > 0) {
    std::memcpy(texts.at(scope), &head.users, sizeof head.users);
    return;
  }
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = home_of(scope, texts);
  while (slots_[hole] != scope + 1) {
    hole = (hole + 1) & mask;
  }
  // Whoever would no longer be found behind the hole moves into it.
  for (std::size_t i = (hole + 1) & mask; slots_[i] != 0; i = (i + 1) & mask) {
    const std::size_t wanted = home_of(slots_[i] - 1, texts);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
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
