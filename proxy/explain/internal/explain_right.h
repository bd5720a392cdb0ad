#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "auth/authorizer.h"
#include "krm/json.h"
#include "proxy/routing/request.h"
#include "proxy/routing/router.h"
#include "topology/snapshot.h"

/// The right that decides about a request whose way is known (OP-111). Pure.
namespace kintsugi::proxy {

struct ExplainedRight {
  /// What a SubjectAccessReview asks, without a user. nullopt: no review says it.
  std::optional<auth::Attributes> asked;
  std::string_view why;  ///< there is none, in words
};
/// Of a workspace without a path behind it: to enter it.
/// @param request  as the route goes on with it
/// @param reviewed  reads of all logical clusters are reviewed in root (FP-163)
[[nodiscard]] ExplainedRight right_of(const topology::Snapshot& index, Request& request,
                                      const Route& route, bool reviewed);

/// {"cluster", "verb", "path"} or {"cluster", "verb", "group", "version", "resource",
/// "subresource", "namespace", "name"}; or {"why"}.
[[nodiscard]] krm::Json right_json(const ExplainedRight& right);
/// The same again; nullopt: {"why"}.
[[nodiscard]] std::optional<auth::Attributes> right_from(const krm::Json& json);

}  // namespace kintsugi::proxy
