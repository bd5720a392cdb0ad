#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/guard.h"
#include "http/handler.h"

namespace kintsugi::http {

/// What a request gets whose handling threw (E17): a Status without anything of the fault, or a
/// reset where an answer has begun. @return takes what the client still sends.
[[nodiscard]] std::unique_ptr<RequestHandler> answer_internal_fault(ResponseStream& stream,
                                                                    bool head_only) noexcept;

/// The seam between an engine and everything that answers: what `answer` throws becomes 500 and is
/// counted, and the process lives (SE-181). @param answer  gives the request's handler.
template <class Answer>
[[nodiscard]] std::unique_ptr<RequestHandler> guarded_answer(std::string_view where,
                                                             ResponseStream& stream, bool head_only,
                                                             Answer&& answer) noexcept {
  std::unique_ptr<RequestHandler> handler;
  guarded(where, [&] { handler = answer(); });
  return handler != nullptr ? std::move(handler) : answer_internal_fault(stream, head_only);
}

}  // namespace kintsugi::http
