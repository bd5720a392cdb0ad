#include "apiserver/internal/versions.h"

#include <string>

namespace kintsugi::apiserver::internal {

Error version_too_large(store::Revision asked, store::Revision current) {
  ErrorDetail detail;
  detail.message = "Too large resource version: " + std::to_string(asked) +
                   ", current: " + std::to_string(current);
  detail.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
  detail.retry_after_seconds = 1;
  return Error(Errc::kFutureRevision, std::move(detail));
}

Error version_too_old(store::Revision asked, store::Revision oldest) {
  return Error(Errc::kExpired, "too old resource version: " + std::to_string(asked) + " (" +
                                   std::to_string(oldest) + ")");
}

}  // namespace kintsugi::apiserver::internal
