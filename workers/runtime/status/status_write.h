#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// The merge patch for `/status` that turns what the server has into what is wanted; nullopt when
/// both mean the same (RT-81, RT-82), so that nothing is written.
/// @param resource_version  of `from`, where placement or allocation is written: another one on the
///                          server then answers 409. "" for no precondition.
[[nodiscard]] std::optional<std::string> status_patch(const krm::Json& from, const krm::Json& to,
                                                      std::string_view resource_version = {});

/// Sets a text of a status; one that is empty is left out.
void set_or_erase(krm::Json& status, std::string_view key, std::string_view value);

inline constexpr std::size_t kMaxStatusBytes = 256U << 10U;

/// Makes a status fit (RT-85). Of one that is too large, lists and maps outside `conditions` are
/// cut to their first 10 entries, the largest first, until it fits; if that is not enough only
/// `conditions` and `observedGeneration` stay. Lists stay lists, so that schemas hold. The same
/// status always gives the same result.
/// @returns what was left out, for a condition's message: "placements: 20000 entries, first 10: a,
///          b, …"; "" when it fitted.
[[nodiscard]] std::string summarize_status(krm::Json& status, std::size_t limit = kMaxStatusBytes);

}  // namespace kintsugi::workers
