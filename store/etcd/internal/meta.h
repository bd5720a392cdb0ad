#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "store/store.h"

/// What the key `meta` of a prefix says of what is under it (GR-124, GR-125, GR-306). Pure.
namespace kintsugi::store::etcd {

struct Meta {
  enum class State : std::uint8_t {
    kWhole,
    kCopying,  ///< of what `place` has, and not whole yet
    kMoved,    ///< it was copied to `place`, which has gone on since
    kMoving,   ///< the last of it is being copied to `place`: nobody writes for a moment
  };

  std::string uid;               ///< of the store
  Revision offset = 0;           ///< of its revisions over etcd's
  std::uint64_t epoch = 1;       ///< rises when `offset` does
  std::string lowest = "0.1.0";  ///< program that may write
  State state = State::kWhole;
  std::string place;
  krm::Json others = krm::Json::object();  ///< members of later programs: they stay (GR-211)
};

/// Programs that know of no states take one that is not whole for an unknown format.
[[nodiscard]] std::string encode(const Meta& meta);
/// @error kConfig it has a format that this program does not know.
[[nodiscard]] Expected<Meta> parse_meta(std::string_view text, std::string_view prefix);
/// @param opens_moved  one that has moved is opened nevertheless
/// @error kConfig why it is nothing to start with.
[[nodiscard]] Expected<void> check_whole(const Meta& meta, std::string_view prefix,
                                         bool opens_moved);

/// Whether programs below this release open what the record is of (GR-211).
[[nodiscard]] bool is_for_earlier(const Meta& meta, std::string_view program);
/// @param program  its release, "0.2.0"
/// @error kConfig it is older than the record allows (GR-211): names both.
[[nodiscard]] Expected<void> check_program(const Meta& meta, std::string_view prefix,
                                           std::string_view program);

}  // namespace kintsugi::store::etcd
