#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/books.h"
#include "store/store.h"

/// Bytes on disk of the LMDB store, format 1. Keys order by bytes, revisions in them are
/// big-endian; record fields are little-endian. Every record starts with an XXH3 checksum over the
/// rest of the record, seeded by its database key, so a record at the wrong place is corrupt too.
///
/// | table   | key                         | record after the checksum                            |
/// |---------|-----------------------------|------------------------------------------------------|
/// | current | key                         | created, modified, value                             |
/// | history | key, modified               | created, end revision, value                         |
/// | log     | revision, index (4 bytes)   | created, previous modified, type, key size, key,
/// payload of a delete | | meta    | "format" "state" "marks"    | see below |
/// | books   | '=' and the account         | revision, version of the rules, sums                 |
///
/// A value is in `current` while it is live and in `history` after that, so once. An event is
/// joined from the log, the version it made and the version it ended. History keys need their own
/// order (compare_history_keys): keys may be prefixes of each other.
namespace kintsugi::store::layout {

inline constexpr std::uint32_t kFormat = 1;
inline constexpr std::size_t kVersionHeader = 24;
inline constexpr std::size_t kLogHeader = 32;
inline constexpr std::size_t kLogKeyBytes = 12;

/// A row of `current` (second = modified) or `history` (second = end revision).
struct Version {
  Revision created = 0;
  Revision second = 0;
  std::string_view value;
};

/// Writes a record of kVersionHeader + value.size() bytes to `out`.
void encode_version(char* out, std::string_view db_key, const Version& version) noexcept;
/// @returns views into `record`; nullopt when it is damaged. `check` false skips the checksum.
[[nodiscard]] std::optional<Version> decode_version(std::string_view db_key,
                                                    std::string_view record,
                                                    bool check = true) noexcept;

struct LogRecord {
  EventType type = EventType::kPut;
  Revision created = 0;
  Revision previous_modified = 0;
  std::string_view key;
  std::string_view payload;
};
/// Writes a record of kLogHeader + key.size() + payload.size() bytes to `out`.
void encode_log(char* out, std::string_view db_key, const LogRecord& record) noexcept;
[[nodiscard]] std::optional<LogRecord> decode_log(std::string_view db_key,
                                                  std::string_view record) noexcept;

[[nodiscard]] std::string history_key(std::string_view key, Revision modified);
struct HistoryKey {
  std::string_view key;
  Revision modified = 0;
};
/// `bytes` must have at least 8 bytes.
[[nodiscard]] HistoryKey split_history_key(std::string_view bytes) noexcept;
/// <0, 0, >0: by key, then by revision.
[[nodiscard]] int compare_history_keys(std::string_view a, std::string_view b) noexcept;

[[nodiscard]] std::string log_key(Revision revision, std::uint32_t index);
/// `bytes` must have kLogKeyBytes bytes.
[[nodiscard]] std::pair<Revision, std::uint32_t> split_log_key(std::string_view bytes) noexcept;

/// meta "state": both move in the transaction that they describe.
struct State {
  Revision revision = 0;
  Revision compacted = 0;
};
[[nodiscard]] std::string encode_state(const State& state);
[[nodiscard]] std::optional<State> decode_state(std::string_view record) noexcept;

/// A row of `books`.
struct BookRow {
  Revision revision = 0;  ///< of the last transaction that changed it
  std::uint32_t version = 0;
  Sums sums{};
};
inline constexpr std::size_t kBookRow = 24 + 8 * kBookColumns;
/// Writes kBookRow bytes to `out`.
void encode_book(char* out, std::string_view db_key, const BookRow& row) noexcept;
[[nodiscard]] std::optional<BookRow> decode_book(std::string_view db_key,
                                                 std::string_view record) noexcept;

/// meta "marks": at `time` [ns of the clock that `clock_id` names] `revision` was current.
struct Mark {
  std::int64_t time = 0;
  Revision revision = 0;
};
[[nodiscard]] std::string encode_marks(std::uint64_t clock_id, const std::vector<Mark>& marks);
/// Empty when damaged or of another clock.
[[nodiscard]] std::vector<Mark> decode_marks(std::uint64_t clock_id, std::string_view record);

/// XXH3 of some text, for identities.
[[nodiscard]] std::uint64_t hash(std::string_view text) noexcept;

}  // namespace kintsugi::store::layout
