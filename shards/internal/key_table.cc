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
    if (slots_[slot] != kErased && key_at(slots_[slot]) == key) {
      return slot;
    }
    slot = (slot + 1) & mask;
  }
  return slots_.size();
}

void KeyTable::insert_slot(std::uint32_t offset) noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key_at(offset)) & mask;
  while (slots_[slot] != kEmpty) {
    slot = (slot + 1) & mask;
  }
  slots_[slot] = offset;
  ++used_;
}

void KeyTable::rebuild(std::size_t slots) {
  std::string old;
  old.swap(arena_);
  arena_.reserve(old.size() - garbage_);
  slots_.assign(slots, kEmpty);
  used_ = 0;
  garbage_ = 0;
  std::size_t at = 0;
  while (at < old.size()) {
    const auto low = static_cast<unsigned char>(old[at + 9]);
    const auto high = static_cast<unsigned char>(old[at + 10]);
    const std::size_t length = kHeader + (low | (static_cast<std::size_t>(high) << 8U));
    if ((old[at + kFlags] & kLive) != 0) {
      const auto offset = static_cast<std::uint32_t>(arena_.size());
      arena_.append(old, at, length);
      insert_slot(offset);
    }
    at += length;
  }
}

bool KeyTable::put(std::string_view key, std::uint64_t revision) {
  if (const std::size_t slot = find_slot(key); slot < slots_.size()) {
    char* entry = arena_.data() + slots_[slot];
    std::uint64_t before = 0;
    std::memcpy(&before, entry, sizeof(before));
    std::memcpy(entry, &revision, sizeof(revision));
    entry[kFlags] = kLive | kSeen;
    return before != revision;
  }
  if ((used_ + 1) * 10 > slots_.size() * 7) {
    std::size_t slots = 16;
    while (slots < (size_ + 1) * 2) {
      slots *= 2;
    }
    rebuild(slots);
  }
  const auto offset = static_cast<std::uint32_t>(arena_.size());
  arena_.append(reinterpret_cast<const char*>(&revision), sizeof(revision));
  arena_.push_back(kLive | kSeen);
  arena_.push_back(static_cast<char>(key.size() & 0xFFU));
  arena_.push_back(static_cast<char>((key.size() >> 8U) & 0xFFU));
  arena_.append(key.substr(0, 0xFFFF));
  insert_slot(offset);
  ++size_;
  return true;
}

bool KeyTable::erase(std::string_view key) {
  const std::size_t slot = find_slot(key);
  if (slot == slots_.size()) {
    return false;
  }
  arena_[slots_[slot] + kFlags] = 0;
  garbage_ += kHeader + key.size();
  slots_[slot] = kErased;
  --size_;
  if (garbage_ > 4'096 && garbage_ > arena_.size() / 2) {
    std::size_t slots = 16;
    while (slots < (size_ + 1) * 2) {
      slots *= 2;
    }
    rebuild(slots);
  }
  return true;
}

void KeyTable::begin_list() noexcept {
  for (const std::uint32_t offset : slots_) {
    if (offset < kErased) {
      arena_[offset + kFlags] = kLive;
    }
  }
}

void KeyTable::end_list(const std::function<void(std::string_view key)>& gone) {
  std::vector<std::string> keys;
  for (const std::uint32_t offset : slots_) {
    if (offset < kErased && (arena_[offset + kFlags] & kSeen) == 0) {
      keys.emplace_back(key_at(offset));
    }
  }
  for (const std::string& key : keys) {
    erase(key);
    gone(key);
  }
}

}  // namespace kintsugi::shards
