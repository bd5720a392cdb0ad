#pragma once

#include <string_view>

#include "http/internal/h1_message.h"

/// What is demanded of HTTP/1.x messages beyond their grammar, which Beast reads: rows SE-084 and
/// SE-110 to SE-115. Nothing here knows of Beast. Threads: any.
namespace kintsugi::http {

/// A refusal as the result of a function.
[[nodiscard]] inline tl::unexpected<H1Fault> bad(std::string_view message, int status = 400) {
  return tl::unexpected<H1Fault>(H1Fault{status, message});
}

/// What the fields of a head say about framing and connection, gathered while they are read. Views
/// are of the head's text.
struct FieldFacts {
  std::string_view host;
  std::string_view length;
  std::string_view coding;
  std::string_view upgrade;
  int hosts = 0;
  int lengths = 0;
  int codings = 0;
  bool close = false;
  bool keep_alive = false;
  bool wants_upgrade = false;
  bool nominates = false;  ///< Connection names further fields
  bool expects_continue = false;
  bool expects_more = false;
};

/// How the body ends, as the fields say. Without any: kNone.
/// @error 400 two answers to that, 501 a coding other than one `chunked`
[[nodiscard]] H1Result<H1Framing> framing_of(const FieldFacts& facts, bool http10);

/// Splits the target into authority and origin form; an absolute form replaces Host.
/// @param target  of visible characters, at least one
/// @error 400 a form that is none, 405 CONNECT
[[nodiscard]] H1Result<void> set_target(RequestHead& head, std::string_view target,
                                        const FieldFacts& facts);

/// Exactly one Host that names a server (HTTP/1.0: at most one), and no expectation but 100.
/// @error 400, 417
[[nodiscard]] H1Result<void> check_request_fields(const FieldFacts& facts, bool http10);

/// Removes the fields that `Connection` names, but none that frames the message.
/// @error 400 more names than anybody needs
[[nodiscard]] H1Result<void> drop_nominated(HeaderList& fields);

/// Removes the trailers that would change what was decided with the head (RFC 9110, section 6.5.1).
void drop_forbidden_trailers(HeaderList& trailers);

/// Why a request line was refused whose version Beast cannot read: 505 for another version of HTTP,
/// 400 for what is none. @param line  without its CR LF
[[nodiscard]] H1Fault version_fault(std::string_view line) noexcept;

}  // namespace kintsugi::http
