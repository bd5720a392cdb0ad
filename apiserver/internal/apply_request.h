#pragma once

#include "apiserver/internal/handlers.h"
#include "apiserver/internal/write_op.h"

/// Server-side apply over HTTP (AM-217 to AM-250).
namespace kintsugi::apiserver::internal {

/// PATCH with application/apply-patch+yaml on an object, its status or its scale. The form of the
/// answer is settled.
void handle_apply(const RequestPtr& request, const Target& target);

/// The object after op's manager applied a Scale, with the entries of managedFields that own the
/// replicas renamed to and fro. @error as krm::apply_configuration; kBadRequest, kInvalid replicas.
[[nodiscard]] Expected<krm::Json> apply_scale(const WriteOp& op, const krm::Json& current,
                                              const krm::Json& config);

}  // namespace kintsugi::apiserver::internal
