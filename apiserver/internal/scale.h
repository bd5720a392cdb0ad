#pragma once

#include <string_view>
#include <vector>

#include "apiserver/served_kind.h"
#include "base/error.h"
#include "krm/json.h"

/// The scale subresource of custom kinds (AM-180, AM-181).
namespace kintsugi::apiserver::internal {

/// Whose kind the subresource is.
inline constexpr std::string_view kScaleGroup = "autoscaling";
inline constexpr std::string_view kScaleVersion = "autoscaling/v1";

/// autoscaling/v1 Scale of an object. @error kInternal the replicas path is absent.
[[nodiscard]] Expected<krm::Json> scale_of(const ServedKind& kind, const krm::Json& object);

/// The same for a patch, which may bring the replicas that the object does not have; with_scale()
/// refuses one that does not.
[[nodiscard]] krm::Json scale_to_change(const ServedKind& kind, const krm::Json& object);

/// Appends what is wrong with the values that the paths name, in a whole object that is written.
void check_scale_values(const ScalePaths& paths, const krm::Json& object,
                        std::vector<Cause>& causes);

/// What Go's decoder says of a Scale whose replicas are no number.
[[nodiscard]] Expected<void> check_scale_types(const krm::Json& scale);

/// `object` with the replicas and the name of a Scale, and with its resourceVersion and uid when it
/// has them.
/// @error kBadRequest no Scale.
[[nodiscard]] Expected<krm::Json> with_scale(const ServedKind& kind, krm::Json object,
                                             const krm::Json& scale);

}  // namespace kintsugi::apiserver::internal
