#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/handler.h"
#include "krm/request_target.h"

namespace kintsugi::serving {

/// Answers that the proxy gives itself (E1 to E17). Each sends a complete
/// response and returns the handler that swallows the rest of the request.

/// What an answer needs of a request after its head has been moved on.
struct AnswerForm {
  std::string accept, user_agent;
  std::string audit_id;    ///< "": none is shown
  bool head_only = false;  ///< HEAD
  bool pretty = false;     ///< ?pretty
  [[nodiscard]] static AnswerForm of(const http::RequestHead& head);
};

/// A Status in the encoding that the client accepts.
void send_error(http::ResponseStream& stream, const AnswerForm& form, const Error& error);
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_error(const http::RequestHead& head,
                                                                 http::ResponseStream& stream,
                                                                 const Error& error);
/// text/plain; charset=utf-8.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_text(const http::RequestHead& head,
                                                                http::ResponseStream& stream,
                                                                int status, std::string_view text);
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_json(const http::RequestHead& head,
                                                                http::ResponseStream& stream,
                                                                int status, std::string_view json);
/// E4: no route. Plain text, as the reference answers (R-23 asks for a
/// Status).
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_no_route(const http::RequestHead& head,
                                                                    http::ResponseStream& stream);
/// 307 to a cleaned path.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_redirect(const http::RequestHead& head,
                                                                    http::ResponseStream& stream,
                                                                    std::string_view location);
/// Reads and drops a request body.
[[nodiscard]] std::unique_ptr<http::RequestHandler> swallow(http::ResponseStream& stream);

/// @{ The errors E1 to E15.
[[nodiscard]] Error not_permitted(std::string_view method, std::string_view target);  ///< E1
[[nodiscard]] Error not_known_yet();                                                  ///< E2
[[nodiscard]] Error workspace_unavailable();                                          ///< E3
[[nodiscard]] Error shard_unreachable(bool watch);                                    ///< E6
[[nodiscard]] Error backend_not_secured();                                            ///< E7
[[nodiscard]] Error backend_lost();                                                   ///< E8
[[nodiscard]] Error body_too_large(std::size_t limit);                                ///< E12
[[nodiscard]] Error not_sendable();                                                   ///< SE-118
[[nodiscard]] Error loop_detected();                                                  ///< E15
[[nodiscard]] Error malformed_path(std::string_view reason);                          ///< E16
[[nodiscard]] Error target_too_long();                                                /// @}

/// What the fault of a target is answered with, whoever asks (SE-027 to SE-030).
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_fault(const http::RequestHead& head,
                                                                 http::ResponseStream& stream,
                                                                 const krm::RequestTarget& target);

}  // namespace kintsugi::serving
