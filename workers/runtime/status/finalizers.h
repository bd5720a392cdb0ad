#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// JSON patches (RFC 6902) for one finalizer of ours (docs/spec/worker-runtime.md, section 6). They
/// test the whole list, and the uid where the object has one, so that they apply to the object that
/// was looked at or not at all; the order of the other finalizers stays.
/// @{
/// nullopt: the object has it already, or is being deleted, when none can be added.
[[nodiscard]] std::optional<std::string> add_finalizer_patch(const krm::Json& object,
                                                             std::string_view finalizer);
/// To be sent only when every reachable peer has confirmed. nullopt: the object does not have it.
[[nodiscard]] std::optional<std::string> remove_finalizer_patch(const krm::Json& object,
                                                                std::string_view finalizer);
/// @}
[[nodiscard]] bool has_finalizer(const krm::Json& object, std::string_view finalizer) noexcept;

}  // namespace kintsugi::workers
