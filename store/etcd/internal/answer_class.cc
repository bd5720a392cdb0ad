#include "store/etcd/internal/answer_class.h"

#include <string_view>

namespace kintsugi::store::etcd {
namespace {

using Outcome = AnswerClass::Outcome;

bool has(const GrpcStatus& status, std::string_view words) {
  return status.message.find(words) != std::string::npos;
}

}  // namespace

AnswerClass classify(const GrpcStatus& status) {
  switch (status.code) {
    case GrpcCode::kInvalidArgument:
      if (has(status, "request is too large")) {
        return {Outcome::kNotDone, Errc::kRequestEntityTooLarge};
      }
      // What 3.4 says of a token that it does not know any more, and all of a request without one.
      return has(status, "invalid auth token") || has(status, "user name is empty")
                 ? AnswerClass{Outcome::kNotDone, Errc::kOk, true}
                 : AnswerClass{Outcome::kNotDone, Errc::kInternal};
    case GrpcCode::kUnauthenticated:
      return {Outcome::kNotDone, Errc::kOk, true};
    case GrpcCode::kPermissionDenied:
    case GrpcCode::kUnimplemented:
      return {Outcome::kNotDone, Errc::kUnavailable};
    case GrpcCode::kResourceExhausted:
      if (has(status, "database space exceeded")) {
        return {Outcome::kNotDone, Errc::kFull};
      }
      if (has(status, "too many requests")) {
        return {Outcome::kNotDone, Errc::kOk};
      }
      return has(status, "larger than max")
                 ? AnswerClass{Outcome::kNotDone, Errc::kRequestEntityTooLarge}
                 : AnswerClass{};
    case GrpcCode::kUnavailable:
      return has(status, "no leader") || has(status, "not supported for learner")
                 ? AnswerClass{Outcome::kNotDone, Errc::kOk}
                 : AnswerClass{};
    default:
      return {};
  }
}

AnswerClass classify(Errc transport) {
  switch (transport) {
    case Errc::kRefused:
    case Errc::kUnreachable:
    case Errc::kOverloaded:
    case Errc::kNotProcessed:
      return {Outcome::kNotDone, Errc::kOk};
    default:
      return {};
  }
}

bool is_compacted(const GrpcStatus& status) {
  return status.code == GrpcCode::kOutOfRange && has(status, "compacted");
}

bool is_future(const GrpcStatus& status) {
  return status.code == GrpcCode::kOutOfRange && has(status, "future");
}

}  // namespace kintsugi::store::etcd
