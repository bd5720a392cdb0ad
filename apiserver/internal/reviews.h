#pragma once

#include <functional>

#include "apiserver/internal/write_op.h"

/// What the steps of admission are shown of a write.
namespace kintsugi::apiserver::internal {

/// @param object, old  of the operation, which owns them. Null: as Review says.
[[nodiscard]] Review review_of(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old);
/// AdmissionStep::review of all steps that the write concerns. A refusal finishes the operation.
/// @param review  made where one does.
void review_all(const WriteOpPtr& op, const std::function<Review()>& review,
                const std::function<void()>& next);

}  // namespace kintsugi::apiserver::internal
