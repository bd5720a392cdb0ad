#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

/// The shape of the journal's keys and values. Source: RT-71, section 18.
namespace kintsugi::workers {

/// Names one row. `ns` is "" for objects of the cluster; the other two are never empty.
struct JournalKey {
  std::string_view cluster, ns, name;
  bool operator==(const JournalKey&) const = default;
};

/// What a row holds. Lifetime: views into what it was read from, or what the caller has.
struct JournalRow {
  std::uint64_t epoch = 0;   ///< of the partition when it was written
  std::string_view rv;       ///< opaque, at most kMaxRowRv bytes
  std::string_view payload;  ///< of the role, at most kMaxRowPayload bytes; no secrets (RT-84)
};

inline constexpr std::size_t kMaxJournalKey = 511;  ///< bytes, LMDB's own limit
inline constexpr std::size_t kMaxNamePart = 253;    ///< bytes of a name or a namespace
inline constexpr std::size_t kMaxRowRv = 2'048;
inline constexpr std::size_t kMaxRowPayload = std::size_t{4} << 20;

/// "cluster\0ns\0name", appended to `out`: its bytes sort as the three names do.
/// @error kInvalid, reason of the first cause "NameTooLong" (a part above 253 bytes, or all above
///        511: never cut) or "NameInvalid" (NUL in a part, no cluster, no name). `out` unchanged.
[[nodiscard]] Expected<void> append_journal_key(std::string& out, const JournalKey& key);
/// The parts; nullopt when it is no such key.
[[nodiscard]] std::optional<JournalKey> split_journal_key(std::string_view bytes) noexcept;

/// Version byte, CRC-32C (4), epoch (8), length of rv (2), rv, payload; little endian. The CRC is
/// of all other bytes and then of the key, so a row under another key is damaged too.
inline constexpr std::size_t kRowHeader = 15;
inline constexpr std::uint8_t kRowVersion = 1;
/// @error kRequestEntityTooLarge rv or payload above its limit; `out` unchanged.
[[nodiscard]] Expected<void> append_journal_row(std::string& out, std::string_view key,
                                                const JournalRow& row);
/// @error kCorrupt "schema …" for another version, "checksum …" for anything else.
[[nodiscard]] Expected<JournalRow> parse_journal_row(std::string_view key, std::string_view value);

}  // namespace kintsugi::workers
