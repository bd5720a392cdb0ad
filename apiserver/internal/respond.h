#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apiserver/internal/request.h"
#include "apiserver/resource.h"
#include "base/bytes.h"
#include "base/error.h"
#include "http/headers.h"

/// Sending answers. All functions do nothing when the stream is gone, and end the request.
namespace kintsugi::apiserver::internal {

/// Fields of every answer: Audit-Id, Cache-Control, Content-Type, Date, Warning, and the two of API
/// priority and fairness, empty, as kcp sends them: there are no flow schemas (AM-069 to AM-074).
[[nodiscard]] http::HeaderList answer_headers(const Request& request, std::string_view type);

/// A complete body; gzip when it is large and accepted; none for HEAD.
void send_body(Request& request, int status, http::HeaderList headers, std::string body);

/// The same, of bytes that others read too and that are packed already if they are to be.
void send_shared_body(Request& request, int status, http::HeaderList headers, SharedBytes body);

/// A JSON document in the negotiated format (JSON, pretty, YAML, protobuf).
void send_json(Request& request, int status, std::string json);

/// A Status for the failure, in the negotiated format, with Retry-After where it has one.
void send_error(Request& request, const Error& error);
/// The same of a Status that is there already.
/// @param more  headers, besides those of every answer
void send_status(Request& request, int code, const krm::Json& status, http::HeaderList more = {});

/// The store cannot be read or written now: kIo, kFull.
[[nodiscard]] bool is_store_fault(const Error& error) noexcept;
/// What a client is told of such a failure of `operation` (AM-033); the log is told why.
[[nodiscard]] Error store_fault(const Error& error, std::string_view operation,
                                const ResourceDef& def);

/// text/plain with nosniff.
void send_text(Request& request, int status, std::string_view text, bool nosniff = true);
/// AM-003
void send_unknown_path(Request& request);

/// Head of a streamed body; the producer goes on. Starts nothing when the stream is gone.
void send_stream(Request& request, http::HeaderList headers, std::unique_ptr<Producer> producer,
                 int status = 200);

/// `299 - "<text>"` header values within the limits of AM-071.
void add_warnings(http::HeaderList& headers, const std::vector<std::string>& warnings);

}  // namespace kintsugi::apiserver::internal
