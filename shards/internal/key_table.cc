#include "shards/internal/key_table.h"

#include <cstring>

namespace kintsugi::shards {
namespace {

constexpr char kLive = 1;
constexpr char kSeen = 2;
constexpr std::size_t kFlags = 8;

}  // namespace

std::string_view KeyTable::key_at(std::uint32_t offset) const noexcept {
  const auto low = static_cast<unsigned char>(arena_[offset + 9]);
  const auto high = static_cast<unsigned char>(arena_[offset + 10]);
  return std::string_view(arena_).substr(offset + kHeader,
                                         low | (static_cast<std::size_t>(high) << 8U));
}

std::size_t KeyTable::find_slot(std::string_view key) const noexcept {
  if (slots_.empty()) {
    return slots_.size();
  }
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key)&mask;
  while (slots_[slot] != kEmpty) {
    if (slots_[slot] != kErased && key_at(offsets_[slots_[slot]]) == key) {
      return slot;
    }
    slot = (slot + 1) & mask;
  }
  return slots_.size();
}

KeyTable::Id KeyTable::find(std::string_view key) const noexcept {
  const std::size_t slot = find_slot(key);
  return slot < slots_.size() ? slots_[slot] : kNone;
}

std::uint64_t KeyTable::revision(Id id) const noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, arena_.data() + offsets_[id], sizeof(value));
  return value;
}

void KeyTable::insert_slot(Id id) noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key(id)) & mask;
  while (slots_[slot] != kEmpty) {
    slot = (slot + 1) & mask;
  }
  slots_[slot] = id;
  ++used_;
}

void KeyTable::rehash() {
  std::size_t slots = 16;
  while (slots < (size_ + 1) * 2) {
    slots *= 2;
  }
  slots_.assign(slots, kEmpty);
  used_ = 0;
  for (Id id = 0; id < end_id(); ++id) {
    if (holds(id)) {
      insert_slot(id);
    }
  }
}

void KeyTable::compact() {
  std::string old;
  old.swap(arena_);
  arena_.reserve(old.size() - garbage_);
  garbage_ = 0;
  for (std::uint32_t& offset : offsets_) {
    if (offset == kEmpty) {
      continue;
    }
    const auto low = static_cast<unsigned char>(old[offset + 9]);
    const auto high = static_cast<unsigned char>(old[offset + 10]);
    const std::size_t length = kHeader + (low | (static_cast<std::size_t>(high) << 8U));
    const auto moved = static_cast<std::uint32_t>(arena_.size());
    arena_.append(old, offset, length);
    offset = moved;
  }
}

bool KeyTable::put(std::string_view key, std::uint64_t revision, Id* id) {
  if (const std::size_t slot = find_slot(key); slot < slots_.size()) {
    char* entry = arena_.data() + offsets_[slots_[slot]];
    std::uint64_t before = 0;
    std::memcpy(&before, entry, sizeof(before));
    std::memcpy(entry, &revision, sizeof(revision));
    entry[kFlags] = kLive | kSeen;
    if (id != nullptr) {
      *id = slots_[slot];
    }
    return before != revision;
  }
  if ((used_ + 1) * 10 > slots_.size() * 7) {
    rehash();
  }
  key = key.substr(0, 0xFFFF);
  const auto offset = static_cast<std::uint32_t>(arena_.size());
  arena_.append(reinterpret_cast<const char*>(&revision), sizeof(revision));
  arena_.push_back(kLive | kSeen);
  arena_.push_back(static_cast<char>(key.size() & 0xFFU));
  arena_.push_back(static_cast<char>((key.size() >> 8U) & 0xFFU));
  arena_.append(key);
  Id at = end_id();
  if (free_.empty()) {
    offsets_.push_back(offset);
  } else {
    at = free_.back();
    free_.pop_back();
    offsets_[at] = offset;
  }
  insert_slot(at);
  ++size_;
  if (id != nullptr) {
    *id = at;
  }
  return true;
}

bool KeyTable::erase(std::string_view key, Id* id) {
  const std::size_t slot = find_slot(key);
  if (slot == slots_.size()) {
    return false;
  }
  const Id gone = slots_[slot];
  garbage_ += kHeader + key.size();
  slots_[slot] = kErased;
  offsets_[gone] = kEmpty;
  free_.push_back(gone);
  --size_;
  if (id != nullptr) {
    *id = gone;
  }
  if (garbage_ > 4'096 && garbage_ > arena_.size() / 2) {
    compact();
    rehash();
  }
  return true;
}

void KeyTable::begin_list() noexcept {
  for (const std::uint32_t offset : offsets_) {
    if (offset != kEmpty) {
      arena_[offset + kFlags] = kLive;
    }
  }
}

void KeyTable::touch(std::string_view key) noexcept {
  if (const Id id = find(key); id != kNone) {
    arena_[offsets_[id] + kFlags] = kLive | kSeen;
  }
}

std::size_t KeyTable::unseen() const noexcept {
  std::size_t count = 0;
  for (const std::uint32_t offset : offsets_) {
    count += offset != kEmpty && (arena_[offset + kFlags] & kSeen) == 0 ? 1U : 0U;
  }
  return count;
}

void KeyTable::end_list(const std::function<void(std::string_view key)>& gone) {
  end_list([&gone](std::string_view key, Id) { gone(key); });
}

void KeyTable::end_list(const std::function<void(std::string_view key, Id id)>& gone) {
  std::string key_text;
  for (Id id = 0; id < end_id(); ++id) {
    if (holds(id) && (arena_[offsets_[id] + kFlags] & kSeen) == 0) {
      key_text = key(id);
      erase(key_text);
      gone(key_text, id);
    }
  }
}

}  // namespace kintsugi::shards
