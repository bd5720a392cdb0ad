#pragma once

#include <string_view>

namespace kintsugi::krm {

/// Formats of strings in structural schemas that are checked (specs/api-machinery.md AM-393).
/// Others are ignored.

/// `uri`: what Go's url.ParseRequestURI takes, an absolute path or a scheme with something behind
/// it.
[[nodiscard]] bool is_request_uri(std::string_view text);

}  // namespace kintsugi::krm
