#include "store/lmdb/internal/layout.h"

#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kintsugi::store::layout {
namespace {

constexpr std::size_t kChecksumBytes = 8;
constexpr std::string_view kStateKey = "state";
constexpr std::string_view kMarksKey = "marks";

template <std::size_t kBytes>
void put_le(char* out, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < kBytes; ++i) {
    out[i] = static_cast<char>(value >> (8 * i));
  }
}

template <std::size_t kBytes>
std::uint64_t get_le(const char* in) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  return value;
}

template <std::size_t kBytes>
void append_be(std::string& out, std::uint64_t value) {
  for (std::size_t i = kBytes; i > 0; --i) {
    out.push_back(static_cast<char>(value >> (8 * (i - 1))));
  }
}

template <std::size_t kBytes>
std::uint64_t get_be(const char* in) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    value = value << 8 | static_cast<unsigned char>(in[i]);
  }
  return value;
}

std::uint64_t checksum(std::string_view db_key, std::string_view record) noexcept {
  return XXH3_64bits_withSeed(record.data() + kChecksumBytes, record.size() - kChecksumBytes,
                              hash(db_key));
}

void seal(char* record, std::size_t size, std::string_view db_key) noexcept {
  put_le<8>(record, checksum(db_key, {record, size}));
}

bool intact(std::string_view db_key, std::string_view record) noexcept {
  return get_le<8>(record.data()) == checksum(db_key, record);
}

void copy(char* out, std::string_view bytes) noexcept {
  if (!bytes.empty()) {
    std::memcpy(out, bytes.data(), bytes.size());
  }
}

}  // namespace

std::uint64_t hash(std::string_view text) noexcept { return XXH3_64bits(text.data(), text.size()); }

void encode_version(char* out, std::string_view db_key, const Version& version) noexcept {
  put_le<8>(out + 8, version.created);
  put_le<8>(out + 16, version.second);
  copy(out + kVersionHeader, version.value);
  seal(out, kVersionHeader + version.value.size(), db_key);
}

std::optional<Version> decode_version(std::string_view db_key, std::string_view record,
                                      bool check) noexcept {
  if (record.size() < kVersionHeader || (check && !intact(db_key, record))) {
    return std::nullopt;
  }
  return Version{get_le<8>(record.data() + 8), get_le<8>(record.data() + 16),
                 record.substr(kVersionHeader)};
}

void encode_log(char* out, std::string_view db_key, const LogRecord& record) noexcept {
  put_le<8>(out + 8, record.created);
  put_le<8>(out + 16, record.previous_modified);
  put_le<4>(out + 24, static_cast<std::uint64_t>(record.type));
  put_le<4>(out + 28, record.key.size());
  copy(out + kLogHeader, record.key);
  copy(out + kLogHeader + record.key.size(), record.payload);
  seal(out, kLogHeader + record.key.size() + record.payload.size(), db_key);
}

std::optional<LogRecord> decode_log(std::string_view db_key, std::string_view record) noexcept {
  if (db_key.size() != kLogKeyBytes || record.size() < kLogHeader || !intact(db_key, record)) {
    return std::nullopt;
  }
  const std::uint64_t type = get_le<4>(record.data() + 24);
  const std::uint64_t key_bytes = get_le<4>(record.data() + 28);
  if (type > 1 || key_bytes > record.size() - kLogHeader) {
    return std::nullopt;
  }
  return LogRecord{static_cast<EventType>(type), get_le<8>(record.data() + 8),
                   get_le<8>(record.data() + 16), record.substr(kLogHeader, key_bytes),
                   record.substr(kLogHeader + key_bytes)};
}

std::string history_key(std::string_view key, Revision modified) {
  std::string bytes;
  bytes.reserve(key.size() + 8);
  bytes.append(key);
  append_be<8>(bytes, modified);
  return bytes;
}

HistoryKey split_history_key(std::string_view bytes) noexcept {
  const std::size_t size = bytes.size() - 8;
  return {bytes.substr(0, size), get_be<8>(bytes.data() + size)};
}

int compare_history_keys(std::string_view a, std::string_view b) noexcept {
  const int by_key = a.substr(0, a.size() - 8).compare(b.substr(0, b.size() - 8));
  return by_key != 0 ? by_key : std::memcmp(a.data() + a.size() - 8, b.data() + b.size() - 8, 8);
}

std::string log_key(Revision revision, std::uint32_t index) {
  std::string bytes;
  append_be<8>(bytes, revision);
  append_be<4>(bytes, index);
  return bytes;
}

std::pair<Revision, std::uint32_t> split_log_key(std::string_view bytes) noexcept {
  return {get_be<8>(bytes.data()), static_cast<std::uint32_t>(get_be<4>(bytes.data() + 8))};
}

std::string encode_state(const State& state) {
  std::string record(24, '\0');
  put_le<8>(record.data() + 8, state.revision);
  put_le<8>(record.data() + 16, state.compacted);
  seal(record.data(), record.size(), kStateKey);
  return record;
}

std::optional<State> decode_state(std::string_view record) noexcept {
  if (record.size() != 24 || !intact(kStateKey, record)) {
    return std::nullopt;
  }
  return State{get_le<8>(record.data() + 8), get_le<8>(record.data() + 16)};
}

void encode_book(char* out, std::string_view db_key, const BookRow& row) noexcept {
  put_le<8>(out + 8, row.revision);
  put_le<4>(out + 16, row.version);
  put_le<4>(out + 20, kBookColumns);
  if constexpr (std::endian::native == std::endian::little) {  // with every commit
    std::memcpy(out + 24, row.sums.data(), sizeof(row.sums));
  } else {
    for (std::size_t i = 0; i < kBookColumns; ++i) {
      put_le<8>(out + 24 + 8 * i, static_cast<std::uint64_t>(row.sums[i]));
    }
  }
  seal(out, kBookRow, db_key);
}

std::optional<BookRow> decode_book(std::string_view db_key, std::string_view record) noexcept {
  if (record.size() != kBookRow || !intact(db_key, record) ||
      get_le<4>(record.data() + 20) != kBookColumns) {
    return std::nullopt;
  }
  BookRow row{
      get_le<8>(record.data() + 8), static_cast<std::uint32_t>(get_le<4>(record.data() + 16)), {}};
  for (std::size_t i = 0; i < kBookColumns; ++i) {
    row.sums[i] = static_cast<std::int64_t>(get_le<8>(record.data() + 24 + 8 * i));
  }
  return row;
}

std::string encode_marks(std::uint64_t clock_id, const std::vector<Mark>& marks) {
  std::string record(16 + 16 * marks.size(), '\0');
  put_le<8>(record.data() + 8, clock_id);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    put_le<8>(record.data() + 16 + 16 * i, static_cast<std::uint64_t>(marks[i].time));
    put_le<8>(record.data() + 24 + 16 * i, marks[i].revision);
  }
  seal(record.data(), record.size(), kMarksKey);
  return record;
}

std::vector<Mark> decode_marks(std::uint64_t clock_id, std::string_view record) {
  std::vector<Mark> marks;
  if (record.size() < 16 || record.size() % 16 != 0 || !intact(kMarksKey, record) ||
      get_le<8>(record.data() + 8) != clock_id) {
    return marks;
  }
  for (std::size_t at = 16; at < record.size(); at += 16) {
    marks.push_back({static_cast<std::int64_t>(get_le<8>(record.data() + at)),
                     get_le<8>(record.data() + at + 8)});
  }
  return marks;
}

}  // namespace kintsugi::store::layout
