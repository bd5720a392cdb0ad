#include "workers/runtime/queue/internal/entry_table.h"

#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kintsugi::workers {

EntryTable::Hashes EntryTable::hashes_of(const QueueKey& key) const noexcept {
  const std::uint64_t scope = scopes_.hash_of(key.cluster, key.ns);
  const std::uint64_t whole = XXH3_64bits_withSeed(key.name.data(), key.name.size(), scope);
  return {scope, static_cast<std::uint32_t>(whole)};
}

QueueKey EntryTable::key(Id id) const noexcept {
  const QueueEntry& entry = (*this)[id];
  return {ScopeTable::cluster(entry.scope, texts_),
          ScopeTable::ns(entry.scope, texts_),
          {texts_.at(entry.name), entry.name_length}};
}

EntryTable::Place EntryTable::locate(const QueueKey& key, std::uint32_t hash) const noexcept {
  std::size_t i = home(hash);
  for (; slots_[i] != 0; i = (i + 1) & mask()) {
    if (((slots_[i] ^ (hash << bits_)) >> bits_) != 0) {
      continue;  // other bits of the hash
    }
    const Id id = id_in(slots_[i]);
    const QueueEntry& entry = (*this)[id];
    if (entry.hash == hash && entry.name_length == key.name.size() &&
        std::memcmp(texts_.at(entry.name), key.name.data(), key.name.size()) == 0 &&
        ScopeTable::matches(entry.scope, key.cluster, key.ns, texts_)) {
      return {i, id};
    }
  }
  return {i, kNone};
}

EntryTable::Id EntryTable::find(const QueueKey& key) const noexcept {
  return slots_.empty() || !fits(key) ? kNone : locate(key, hashes_of(key).whole).id;
}

void EntryTable::grow() {
  const std::uint32_t old_mask = slots_.empty() ? 0 : (1U << bits_) - 1;
  bits_ = slots_.empty() ? kFirstBits : bits_ + 1;
  const std::vector<std::uint32_t> old = std::exchange(slots_, {});
  slots_.assign(std::size_t{1} << bits_, 0);
  for (const std::uint32_t slot : old) {
    if (slot == 0) {
      continue;
    }
    const Id id = (slot & old_mask) - 1;
    const std::uint32_t hash = (*this)[id].hash;
    std::size_t i = home(hash);
    while (slots_[i] != 0) {
      i = (i + 1) & mask();
    }
    slots_[i] = slot_of(id, hash);
  }
}

EntryTable::Found EntryTable::find_or_make(const QueueKey& key) {
  if ((size_ + 1) * 4 > slots_.size() * 3) {
    grow();
  }
  const Hashes hashes = hashes_of(key);
  const Place place = locate(key, hashes.whole);
  if (place.id != kNone) {
    return {place.id, false};
  }
  Id id = free_;
  if (id != kNone) {
    free_ = (*this)[id].next;
  } else {
    id = used_++;
    if (id / kChunkEntries == chunks_.size()) {
      chunks_.push_back(std::make_unique<QueueEntry[]>(kChunkEntries));
    }
  }
  QueueEntry& entry = (*this)[id];
  entry = QueueEntry{};
  entry.hash = hashes.whole;
  entry.scope = scopes_.take(key.cluster, key.ns, hashes.scope, texts_);
  entry.name = texts_.allocate(key.name.size());
  entry.name_length = static_cast<std::uint8_t>(key.name.size());
  key.name.copy(texts_.at(entry.name), key.name.size());
  slots_[place.slot] = slot_of(id, hashes.whole);
  ++size_;
  return {id, true};
}

void EntryTable::erase(Id id) noexcept {
  QueueEntry& entry = (*this)[id];
  std::size_t hole = home(entry.hash);
  while (slots_[hole] != slot_of(id, entry.hash)) {
    hole = (hole + 1) & mask();
  }
  // Whoever would no longer be found behind the hole moves into it.
  for (std::size_t i = (hole + 1) & mask(); slots_[i] != 0; i = (i + 1) & mask()) {
    const std::size_t wanted = home((*this)[id_in(slots_[i])].hash);
    if (((i - wanted) & mask()) >= ((i - hole) & mask())) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = 0;
  texts_.release(entry.name, entry.name_length);
  scopes_.drop(entry.scope, texts_);
  entry.next = free_;
  free_ = id;
  --size_;
  if (size_ == 0 && used_ > kKeptEntries) {
    scopes_.clear();
    texts_.clear();
    std::vector<std::unique_ptr<QueueEntry[]>>().swap(chunks_);
    std::vector<std::uint32_t>().swap(slots_);
    bits_ = 0;
    used_ = 0;
    free_ = kNone;
  }
}

std::size_t EntryTable::memory_bytes() const noexcept {
  return scopes_.memory_bytes() + texts_.memory_bytes() +
         chunks_.size() * kChunkEntries * sizeof(QueueEntry) +
         chunks_.capacity() * sizeof(chunks_[0]) + slots_.capacity() * sizeof(slots_[0]);
}

}  // namespace kintsugi::workers
