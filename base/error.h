#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace kintsugi {

/// What went wrong, one value per Kubernetes reason plus the causes of transports, stores and
/// files. docs/errors.md has a row per value: HTTP code, reason, who retries. A test compares both.
enum class Errc : std::uint8_t {
  kOk = 0,
  // Kubernetes reasons (krm::to_status gives code and reason)
  kBadRequest,
  kUnauthorized,
  kForbidden,
  kNotFound,
  kAlreadyExists,
  kConflict,
  kInvalid,
  kMethodNotAllowed,
  kNotAcceptable,
  kUnsupportedMediaType,
  kRequestEntityTooLarge,
  kTooManyRequests,
  kExpired,
  kTimeout,
  kServerTimeout,
  kInternal,
  kUnavailable,
  // Peers and connections
  kCancelled,     ///< we gave up, nobody waits for the answer
  kClosed,        ///< the peer closed in order
  kRefused,       ///< connect refused
  kUnreachable,   ///< no route, name not found, connect timeout, ping lost
  kDeadline,      ///< time ran out
  kTls,           ///< handshake or certificate fault
  kProtocol,      ///< malformed HTTP
  kReset,         ///< RST_STREAM or TCP reset after the request may have been executed
  kNotProcessed,  ///< the peer promises that it did not execute the request (REFUSED_STREAM,
                  ///< GOAWAY)
  kOverloaded,    ///< one of our own queues is full
  // Store and files
  kIo,
  kFull,  ///< disk or map size
  kCorrupt,
  kCompacted,       ///< revision older than the kept history
  kFutureRevision,  ///< revision not reached yet
  kConfig,          ///< configuration or command line
};

/// One entry of Status.details.causes.
struct Cause {
  std::string reason;  ///< e.g. "FieldValueInvalid"
  std::string message;
  std::string field;  ///< e.g. "spec.a[2].b"; "<nil>" when there is no path
  bool operator==(const Cause&) const = default;
};

/// Everything about a failure that a client or a log line can use. All members are optional.
struct ErrorDetail {
  std::string message;
  std::string kind;   ///< Status.details.kind (plural resource or Kind, AM-011)
  std::string group;  ///< Status.details.group
  std::string name;   ///< Status.details.name
  std::string uid;    ///< Status.details.uid
  std::vector<Cause> causes;
  std::string continue_token;   ///< Status.metadata.continue
  int retry_after_seconds = 0;  ///< 0: none
  int http_status = 0;          ///< 0: the one that belongs to the Errc
};

/// A failure. 16 bytes; success paths and errors without text allocate nothing. Movable, not
/// copyable.
class [[nodiscard]] Error {
 public:
  explicit Error(Errc code) noexcept : code_(code) {}
  Error(Errc code, std::string message) : code_(code), detail_(std::make_unique<ErrorDetail>()) {
    detail_->message = std::move(message);
  }
  Error(Errc code, ErrorDetail detail)
      : code_(code), detail_(std::make_unique<ErrorDetail>(std::move(detail))) {}

  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// The text, "" when there is none.
  [[nodiscard]] std::string_view message() const noexcept {
    return detail_ ? std::string_view(detail_->message) : std::string_view();
  }
  /// Read access without allocation; a shared empty detail when there is none.
  [[nodiscard]] const ErrorDetail& detail() const noexcept;
  /// Write access, allocates on first use.
  ErrorDetail& edit();
  /// Puts "<what>: " in front of the message. For adding context once, where it is known.
  [[nodiscard]] Error at(std::string_view what) &&;
  /// A deep copy, for the rare place that answers one failure to several waiters.
  [[nodiscard]] Error clone() const;
  /// "<Errc name>: <message>", for logs.
  [[nodiscard]] std::string to_string() const;

 private:
  Errc code_;
  std::unique_ptr<ErrorDetail> detail_;
};

/// The name as written in the enum, without the k ("NotFound").
[[nodiscard]] std::string_view errc_name(Errc code) noexcept;

template <class T>
using Expected = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Errc code) {
  return tl::unexpected<Error>(Error(code));
}
[[nodiscard]] inline tl::unexpected<Error> fail(Errc code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace kintsugi
