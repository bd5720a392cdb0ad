#include "base/error.h"

namespace kintsugi {

const ErrorDetail& Error::detail() const noexcept {
  static const ErrorDetail kEmpty;
  return detail_ ? *detail_ : kEmpty;
}

ErrorDetail& Error::edit() {
  if (!detail_) {
    detail_ = std::make_unique<ErrorDetail>();
  }
  return *detail_;
}

Error Error::at(std::string_view what) && {
  std::string& text = edit().message;
  text = text.empty() ? std::string(what) : std::string(what) + ": " + text;
  return std::move(*this);
}

Error Error::clone() const { return detail_ ? Error(code_, *detail_) : Error(code_); }

std::string Error::to_string() const {
  std::string text(errc_name(code_));
  if (detail_ && !detail_->message.empty()) {
    text += ": " + detail_->message;
  }
  return text;
}

std::string_view errc_name(Errc code) noexcept {
  switch (code) {
    case Errc::kOk:
      return "Ok";
    case Errc::kBadRequest:
      return "BadRequest";
    case Errc::kUnauthorized:
      return "Unauthorized";
    case Errc::kForbidden:
      return "Forbidden";
    case Errc::kNotFound:
      return "NotFound";
    case Errc::kAlreadyExists:
      return "AlreadyExists";
    case Errc::kConflict:
      return "Conflict";
    case Errc::kInvalid:
      return "Invalid";
    case Errc::kMethodNotAllowed:
      return "MethodNotAllowed";
    case Errc::kNotAcceptable:
      return "NotAcceptable";
    case Errc::kUnsupportedMediaType:
      return "UnsupportedMediaType";
    case Errc::kRequestEntityTooLarge:
      return "RequestEntityTooLarge";
    case Errc::kTooManyRequests:
      return "TooManyRequests";
    case Errc::kExpired:
      return "Expired";
    case Errc::kTimeout:
      return "Timeout";
    case Errc::kServerTimeout:
      return "ServerTimeout";
    case Errc::kInternal:
      return "Internal";
    case Errc::kUnavailable:
      return "Unavailable";
    case Errc::kCancelled:
      return "Cancelled";
    case Errc::kClosed:
      return "Closed";
    case Errc::kRefused:
      return "Refused";
    case Errc::kUnreachable:
      return "Unreachable";
    case Errc::kDeadline:
      return "Deadline";
    case Errc::kTls:
      return "Tls";
    case Errc::kProtocol:
      return "Protocol";
    case Errc::kReset:
      return "Reset";
    case Errc::kNotProcessed:
      return "NotProcessed";
    case Errc::kOverloaded:
      return "Overloaded";
    case Errc::kIo:
      return "Io";
    case Errc::kFull:
      return "Full";
    case Errc::kCorrupt:
      return "Corrupt";
    case Errc::kCompacted:
      return "Compacted";
    case Errc::kFutureRevision:
      return "FutureRevision";
    case Errc::kConfig:
      return "Config";
  }
  return "Unknown";
}

}  // namespace kintsugi
