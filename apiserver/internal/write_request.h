#pragma once

#include "apiserver/internal/handlers.h"
#include "apiserver/internal/write_op.h"

namespace kintsugi::apiserver::internal {

/// An operation that answers the request when it finishes.
[[nodiscard]] WriteOpPtr make_write_op(const RequestPtr& request, const Target& target, Write what);

/// The caller's own right to create.
[[nodiscard]] AskCreate ask_create(const RequestPtr& request);

/// Gives what admission noted in the operation to the request: warnings, audit annotations.
void pass_notes(Request& request, WriteOp& op);

/// DeleteOptions from body or query; answers failures itself and returns nullopt.
[[nodiscard]] std::optional<DeleteOptions> read_delete_options(const RequestPtr& request);

}  // namespace kintsugi::apiserver::internal
