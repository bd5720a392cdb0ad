#include "topology/internal/index_map.h"

#include <cstring>
#include <functional>

namespace kintsugi::topology {

IndexMap::Packed IndexMap::unpack(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(bytes[at]));
  };
  const std::size_t key_length = byte(2);
  const std::size_t value_length = byte(3) | (byte(4) << 8U);
  return {static_cast<std::uint16_t>(byte(0) | (byte(1) << 8U)),
          kHeader + key_length + value_length, bytes.substr(kHeader, key_length),
          bytes.substr(kHeader + key_length, value_length)};
}

IndexMap::Place IndexMap::place_of(std::string_view key) noexcept {
  const std::size_t hash = std::hash<std::string_view>{}(key);
  return {hash % kFanout, (hash / kFanout) % kFanout, static_cast<std::uint16_t>(hash >> 16U)};
}

std::optional<std::pair<std::size_t, IndexMap::Packed>> IndexMap::search(
    std::string_view bucket, std::uint16_t fingerprint, std::string_view key) noexcept {
  std::size_t at = 0;
  while (at < bucket.size()) {
    const Packed packed = unpack(bucket.substr(at));
    if (packed.fingerprint == fingerprint && packed.key == key) {
      return std::pair(at, packed);
    }
    at += packed.size;
  }
  return std::nullopt;
}

std::optional<IndexMap::Entry> IndexMap::find(std::string_view key) const noexcept {
  if (!root_) {
    return std::nullopt;
  }
  const Place place = place_of(key);
  const NodePtr<Page>& page = root_.get()->pages[place.page];
  if (!page) {
    return std::nullopt;
  }
  const auto hit = search(page.get()->buckets[place.bucket].view(), place.fingerprint, key);
  if (!hit) {
    return std::nullopt;
  }
  return Entry{hit->second.key, hit->second.value};
}

bool IndexMap::put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > 0xFF || value.size() > 0xFFFF) {
    return false;
  }
  if (const auto old = find(key); old && old->value == value) {
    return false;
  }
  const Place place = place_of(key);
  SharedBytes& bucket = root_.edit().pages[place.page].edit().buckets[place.bucket];
  std::string entry;
  entry.reserve(kHeader + key.size() + value.size());
  entry.push_back(static_cast<char>(place.fingerprint & 0xFFU));
  entry.push_back(static_cast<char>(place.fingerprint >> 8U));
  entry.push_back(static_cast<char>(key.size()));
  entry.push_back(static_cast<char>(value.size() & 0xFFU));
  entry.push_back(static_cast<char>(value.size() >> 8U));
  entry.append(key).append(value);
  const std::string_view bytes = bucket.view();
  if (const auto hit = search(bytes, place.fingerprint, key); hit) {
    bucket = SharedBytes(bytes.substr(0, hit->first), entry,
                         bytes.substr(hit->first + hit->second.size));
  } else {
    bucket = SharedBytes(bytes, entry, {});
    ++size_;
  }
  return true;
}

bool IndexMap::erase(std::string_view key) {
  if (!find(key)) {
    return false;
  }
  const Place place = place_of(key);
  SharedBytes& bucket = root_.edit().pages[place.page].edit().buckets[place.bucket];
  const std::string_view bytes = bucket.view();
  const auto hit = search(bytes, place.fingerprint, key);
  bucket =
      SharedBytes(bytes.substr(0, hit->first), bytes.substr(hit->first + hit->second.size), {});
  --size_;
  return true;
}

std::size_t IndexMap::bytes() const noexcept {
  constexpr std::size_t kAllocator = 16;
  if (!root_) {
    return 0;
  }
  std::size_t total = sizeof(Root) + kAllocator;
  for (const NodePtr<Page>& page : root_.get()->pages) {
    if (!page) {
      continue;
    }
    total += sizeof(Page) + kAllocator;
    for (const SharedBytes& bucket : page.get()->buckets) {
      total += bucket.empty() ? 0 : bucket.size() + 16 + kAllocator;
    }
  }
  return total;
}

}  // namespace kintsugi::topology
