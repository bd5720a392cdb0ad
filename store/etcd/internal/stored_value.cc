#include "store/etcd/internal/stored_value.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "krm/protobuf_wire.h"

namespace kintsugi::store::etcd {
namespace {

constexpr std::size_t kHalf = kIdBytes / 2;

void put_big_endian(std::string& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) {
    out += static_cast<char>((number >> (8 * i)) & 0xFFU);
  }
}

std::uint64_t sum(std::string_view key, std::string_view value) noexcept {
  return XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
}

}  // namespace

std::string TransactionIds::next() {
  std::string id;
  put_big_endian(id, random_, kHalf);
  put_big_endian(id, ++counter_, kHalf);
  return id;
}

bool TransactionIds::is_own(std::string_view id) const {
  std::string own;
  put_big_endian(own, random_, kHalf);
  return id.starts_with(own);
}

std::string seal_value(std::string_view etcd_key, std::string_view value, std::string_view id) {
  std::string out;
  out.reserve(value.size() + kTrailerBytes);
  out += value;
  out += id;
  put_big_endian(out, sum(etcd_key, out), 8);
  return out;
}

std::optional<OpenedValue> open_value(std::string_view etcd_key, std::string_view stored) {
  if (stored.size() < kTrailerBytes) {
    return std::nullopt;
  }
  const std::string_view summed = stored.substr(0, stored.size() - 8);
  std::string wanted;
  put_big_endian(wanted, sum(etcd_key, summed), 8);
  if (stored.substr(summed.size()) != wanted) {
    return std::nullopt;
  }
  return OpenedValue{summed.substr(0, summed.size() - kIdBytes),
                     summed.substr(summed.size() - kIdBytes)};
}

std::string encode_deletions(const Deletions& deletions) {
  std::string out;
  for (const auto& [key, value] : deletions) {
    std::string entry;
    krm::put_bytes(entry, 1, key);
    krm::put_bytes(entry, 2, value);
    krm::put_bytes(out, 1, entry);
  }
  return out;
}

std::optional<Deletions> decode_deletions(std::string_view value) {
  Deletions out;
  krm::WireReader reader(value);
  krm::WireField field;
  while (reader.next(field)) {
    krm::WireReader parts(field.bytes);
    krm::WireField part;
    auto& entry = out.emplace_back();
    while (parts.next(part)) {
      (part.field == 1 ? entry.first : entry.second) = part.bytes;
    }
    if (parts.malformed()) {
      return std::nullopt;
    }
  }
  return reader.malformed() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace kintsugi::store::etcd
