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
  if (key.size() > 0xFF) {
    return std::nullopt;
  }
  const std::array<char, 3> wanted{static_cast<char>(fingerprint & 0xFFU),
                                   static_cast<char>(fingerprint >> 8U),
                                   static_cast<char>(key.size())};
  const auto byte = [&](std::size_t at) -> std::size_t {
    return static_cast<unsigned char>(bucket[at]);
  };
  std::size_t at = 0;
  while (at < bucket.size()) {
    const std::size_t size = kHeader + byte(at + 2) + (byte(at + 3) | (byte(at + 4) << 8U));
    if (std::memcmp(bucket.data() + at, wanted.data(), wanted.size()) == 0 &&
        std::memcmp(bucket.data() + at + kHeader, key.data(), key.size()) == 0) {
      return std::pair(at, unpack(bucket.substr(at, size)));
    }
    at += size;
  }
  return std::nullopt;
}

std::string_view IndexMap::bucket_at(const Place& place) const noexcept {
  const Page* page = root_ ? root_.get()->pages[place.page].get() : nullptr;
  return page == nullptr ? std::string_view() : page->buckets[place.bucket].view();
}

std::optional<IndexMap::Entry> IndexMap::find(std::string_view key) const noexcept {
  const Place place = place_of(key);
  const auto hit = search(bucket_at(place), place.fingerprint, key);
  if (!hit) {
    return std::nullopt;
  }
  return Entry{hit->second.key, hit->second.value};
}

bool IndexMap::put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > 0xFF || value.size() > 0xFFFF) {
    return false;
  }
  const Place place = place_of(key);
  const std::string_view bytes = bucket_at(place);
  const auto hit = search(bytes, place.fingerprint, key);
  if (hit && hit->second.value == value) {
    return false;
  }
  std::string entry;
  entry.reserve(kHeader + key.size() + value.size());
  entry.push_back(static_cast<char>(place.fingerprint & 0xFFU));
  entry.push_back(static_cast<char>(place.fingerprint >> 8U));
  entry.push_back(static_cast<char>(key.size()));
  entry.push_back(static_cast<char>(value.size() & 0xFFU));
  entry.push_back(static_cast<char>(value.size() >> 8U));
  entry.append(key).append(value);
  // A copied page shares its buckets, so `bytes` stays what it is.
  SharedBytes& bucket = root_.edit().pages[place.page].edit().buckets[place.bucket];
  const std::size_t head = hit ? hit->first : bytes.size();
  bucket = SharedBytes(bytes.substr(0, head), entry,
                       hit ? bytes.substr(head + hit->second.size) : std::string_view());
  size_ += hit ? 0U : 1U;
  return true;
}

bool IndexMap::erase(std::string_view key) {
  const Place place = place_of(key);
  const std::string_view bytes = bucket_at(place);
  const auto hit = search(bytes, place.fingerprint, key);
  if (!hit) {
    return false;
  }
  SharedBytes& bucket = root_.edit().pages[place.page].edit().buckets[place.bucket];
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
