#include "aggregation/watch/internal/watch_answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/asking/shard_answer.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::int64_t kMinLifetime = 1'800;  ///< [s] of a watch without timeoutSeconds
constexpr std::int64_t kMaxLifetime = 3'600;

}  // namespace

void send_watch_head(http::ResponseStream& down, std::string_view content_type,
                     const std::string& audit_id, const Permit* permit, const WatchParts& parts) {
  http::HeaderList headers;
  headers.add("content-type", content_type);
  headers.add("cache-control", "no-cache, private");
  headers.add("audit-id", audit_id);
  Warnings warnings;
  if (permit != nullptr) {
    for (const Permit::LeftOut& one : permit->left_out()) {
      warnings.add_missing(one.member.name, one.cause);
    }
  }
  parts.add_warnings(warnings);
  warnings.add_to(headers);
  down.send_head(200, headers, false);
}

void pass_status_on(http::ResponseStream& down, const http::ResponseHead& answer,
                    const std::string& body, const std::string& audit_id) {
  http::HeaderList headers = passed_headers(answer);
  if (answer.status == 504 && !headers.contains("retry-after")) {
    headers.add("retry-after", "1");  // AGG-402
  }
  headers.add("audit-id", audit_id);
  down.send_head(answer.status, headers, false);
  down.send_data(body, true);
}

Duration watch_lifetime(std::int64_t wished) {
  return seconds(wished > 0 ? std::min<std::int64_t>(wished, 86'400)
                            : random_between(kMinLifetime, kMaxLifetime));
}

Error refusal_of(const std::string& shard, const http::ResponseHead& head,
                 const std::string& body) {
  static constexpr std::pair<int, Errc> kCodes[] = {
      {400, Errc::kBadRequest},    {401, Errc::kUnauthorized},
      {403, Errc::kForbidden},     {405, Errc::kMethodNotAllowed},
      {406, Errc::kNotAcceptable}, {415, Errc::kUnsupportedMediaType},
      {422, Errc::kInvalid}};
  const auto* const code = std::find_if(std::begin(kCodes), std::end(kCodes),
                                        [&head](auto& one) { return one.first == head.status; });
  std::string text = "shard " + shard + " answers " + std::to_string(head.status);
  if (const krm::Json status = status_of(head, body); !status.text({"message"}).empty()) {
    text.append(": ").append(status.text({"message"}));
  }
  Error error(code == std::end(kCodes) ? Errc::kInternal : code->second, text);
  error.edit().http_status = head.status;
  return error;
}

Error future_of(const http::ResponseHead& head, const std::string& body) {
  Error error(Errc::kFutureRevision, std::string(status_of(head, body).text({"message"})));
  error.edit().retry_after_seconds = 1;
  return error;
}

Error too_many_at_once() {
  Error error(Errc::kTooManyRequests, "too many watches ask for the present objects at once");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace kintsugi::aggregation
