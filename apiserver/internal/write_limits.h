#pragma once

#include <string_view>

#include "apiserver/internal/write_op.h"
#include "base/error.h"
#include "store/books.h"

namespace kintsugi::apiserver::internal {

/// AdmissionStep::keeps of all steps together.
[[nodiscard]] store::Keeps keeps_of(const WriteOp& op);
/// The answer to what would pass a limit (AdmissionStep::over).
[[nodiscard]] Error over_limit(const WriteOp& op, const store::Excess& excess);
/// Of a dry run: whether the limits leave room for `stored` under op.key. @error as over_limit
[[nodiscard]] Expected<void> check_limits(const WriteOp& op, std::string_view stored);

}  // namespace kintsugi::apiserver::internal
