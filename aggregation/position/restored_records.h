#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::aggregation {

/// What a record of the SlotKeeper has to say in an installation that is made from a backup, so
/// that every cursor of before is answered 410 and none is taken for another one (GR-410): the era
/// rises, and so does the number of starts, by 1,024 and more. Keys of tokens stay: who comes with
/// an old token is known. Pure.
/// @param age  of the backup [s]: of two installations that are made of one backup, the later one
/// has the greater numbers. At least 1 is taken.
/// @returns nullopt: of other keys nothing changes. @error kCorrupt.
[[nodiscard]] Expected<std::optional<std::string>> restored_record(std::string_view key,
                                                                   std::string_view value,
                                                                   std::int64_t age);

}  // namespace kintsugi::aggregation
