#include "workers/runtime/journal/internal/journal_row.h"

#include <cstring>

#include "workers/runtime/journal/internal/crc32c.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kCrcAt = 1;
constexpr std::size_t kEpochAt = 5;
constexpr std::size_t kRvLengthAt = 13;

template <class Integer>
void put_little(char* at, Integer value) noexcept {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    at[i] = static_cast<char>((value >> (8 * i)) & 0xFF);
  }
}

template <class Integer>
Integer get_little(const char* at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  }
  return static_cast<Integer>(value);
}

std::uint32_t row_crc(std::string_view key, std::string_view value) noexcept {
  return crc32c(key, crc32c(value.substr(kEpochAt), crc32c(value.substr(0, kCrcAt))));
}

tl::unexpected<Error> bad_name(const char* reason, const std::string& why) {
  ErrorDetail detail;
  detail.message = std::string(reason) + ": " + why;
  detail.causes.push_back({reason, why, "metadata.name"});
  return fail(Error(Errc::kInvalid, std::move(detail)));
}

}  // namespace

Expected<void> append_journal_key(std::string& out, const JournalKey& key) {
  const std::size_t size = key.cluster.size() + key.ns.size() + key.name.size() + 2;
  if (key.ns.size() > kMaxNamePart || key.name.size() > kMaxNamePart || size > kMaxJournalKey) {
    return bad_name("NameTooLong", std::to_string(size) + " bytes of cluster, namespace and name");
  }
  if (key.cluster.empty() || key.name.empty()) {
    return bad_name("NameInvalid", "cluster or name is empty");
  }
  for (const std::string_view part : {key.cluster, key.ns, key.name}) {
    if (part.find('\0') != std::string_view::npos) {
      return bad_name("NameInvalid", "a name holds a NUL byte");
    }
  }
  out.append(key.cluster).push_back('\0');
  out.append(key.ns).push_back('\0');
  out.append(key.name);
  return {};
}

std::optional<JournalKey> split_journal_key(std::string_view bytes) noexcept {
  const std::size_t first = bytes.find('\0');
  const std::size_t second = first == std::string_view::npos ? first : bytes.find('\0', first + 1);
  if (second == std::string_view::npos || first == 0 || second + 1 == bytes.size() ||
      bytes.find('\0', second + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return JournalKey{bytes.substr(0, first), bytes.substr(first + 1, second - first - 1),
                    bytes.substr(second + 1)};
}

Expected<void> append_journal_row(std::string& out, std::string_view key, const JournalRow& row) {
  if (row.rv.size() > kMaxRowRv || row.payload.size() > kMaxRowPayload) {
    return fail(Errc::kRequestEntityTooLarge, "journal row of " +
                                                  std::to_string(row.payload.size()) +
                                                  " bytes, rv of " + std::to_string(row.rv.size()));
  }
  const std::size_t start = out.size();
  out.append(kRowHeader, '\0').append(row.rv).append(row.payload);
  char* head = out.data() + start;
  head[0] = static_cast<char>(kRowVersion);
  put_little(head + kEpochAt, row.epoch);
  put_little(head + kRvLengthAt, static_cast<std::uint16_t>(row.rv.size()));
  put_little(head + kCrcAt, row_crc(key, std::string_view(out).substr(start)));
  return {};
}

Expected<JournalRow> parse_journal_row(std::string_view key, std::string_view value) {
  if (value.empty() || static_cast<std::uint8_t>(value.front()) != kRowVersion) {
    return fail(Errc::kCorrupt, "schema of a row is not known");
  }
  if (value.size() < kRowHeader ||
      get_little<std::uint32_t>(value.data() + kCrcAt) != row_crc(key, value)) {
    return fail(Errc::kCorrupt, "checksum of a row is wrong");
  }
  const auto rv_size = get_little<std::uint16_t>(value.data() + kRvLengthAt);
  if (value.size() - kRowHeader < rv_size) {
    return fail(Errc::kCorrupt, "checksum of a row is right but its length is not");
  }
  return JournalRow{get_little<std::uint64_t>(value.data() + kEpochAt),
                    value.substr(kRowHeader, rv_size), value.substr(kRowHeader + rv_size)};
}

}  // namespace kintsugi::workers
