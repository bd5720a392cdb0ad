#include "aggregation/asking/shard_answer.h"

#include <algorithm>

#include "aggregation/asking/jitter.h"
#include "base/strings.h"
#include "krm/protobuf.h"

namespace kintsugi::aggregation {

ShardVerdict judge_answer(const http::ResponseHead& head, std::string_view body) {
  const bool json = media_type(head.headers.get("content-type")) == "application/json";
  switch (head.status) {
    case 200:
      return json ? ShardVerdict::kGood : ShardVerdict::kDown;
    case 404:
      return ShardVerdict::kAbsent;
    case 410:
      return ShardVerdict::kExpired;
    case 400:
    case 403:
    case 405:
    case 406:
    case 415:
    case 422:
    case 429:
    case 508:
      return ShardVerdict::kFinal;
    case 504:
      return body.find("ResourceVersionTooLarge") == std::string_view::npos ? ShardVerdict::kDown
                                                                            : ShardVerdict::kFinal;
    default:
      return ShardVerdict::kDown;  // 401 too: the identity is ours to prove
  }
}

Error shards_unavailable(const std::vector<std::pair<std::string, std::string>>& causes,
                         bool watch) {
  Error error(watch ? Errc::kTooManyRequests : Errc::kUnavailable);
  ErrorDetail& detail = error.edit();
  detail.message = "some shards cannot be asked now:";
  for (const auto& [shard, cause] : causes) {
    (detail.message += ' ') += shard;
    detail.causes.push_back({"ShardUnavailable", cause, shard});
  }
  detail.retry_after_seconds = static_cast<int>(random_between(1, 5));
  return error;
}

Error version_too_large(std::uint64_t asked, std::uint64_t reached) {
  Error error(Errc::kFutureRevision);
  error.edit().message = "Too large resource version: " + std::to_string(asked) +
                         ", current: " + std::to_string(reached);
  error.edit().retry_after_seconds = 1;
  return error;
}

Error shards_busy(int retry_after) {
  Error error(Errc::kTooManyRequests);
  error.edit().message = "some shards have too many requests, please try again later";
  error.edit().retry_after_seconds = retry_after;
  return error;
}

int retry_after_of(const http::ResponseHead& answer) noexcept {
  return std::clamp(parse_decimal<int>(answer.headers.get("retry-after")).value_or(1), 1, 3600);
}

krm::Json status_of(const http::ResponseHead& answer, std::string_view body) {
  const bool protobuf = media_type(answer.headers.get("content-type")) == krm::kProtobufMediaType;
  Expected<krm::Json> status = protobuf ? krm::decode_protobuf(body) : krm::Json::parse(body);
  return status && status->text({"kind"}) == "Status" ? std::move(*status) : krm::Json();
}

void Warnings::add(std::vector<std::string>& list, std::string value) {
  const bool known = std::find(missing_.begin(), missing_.end(), value) != missing_.end() ||
                     std::find(passed_.begin(), passed_.end(), value) != passed_.end();
  if (!known && list.size() < kMost) {
    list.push_back(std::move(value));
  }
}

void Warnings::add_from(const http::HeaderList& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name == "warning") {
      add(passed_, std::string(headers[i].value));
    }
  }
}

void Warnings::add_missing(std::string_view shard, std::string_view cause) {
  std::string text = "299 - \"the answer lacks shard ";
  for (const char c : std::string(shard) + ": " + std::string(cause)) {
    if (c == '"' || c == '\\') {
      text += '\\';
    }
    text += c >= ' ' && c < 0x7F ? c : '?';
  }
  add(missing_, text + '"');
}

void Warnings::add_to(http::HeaderList& headers) const {
  std::size_t room = kMost;
  for (const auto* list : {&missing_, &passed_}) {
    for (std::size_t i = 0; i < list->size() && room > 0; ++i, --room) {
      headers.add("warning", (*list)[i]);
    }
  }
}

void ask_as(http::RequestHead& head, std::string_view accept) {
  head.headers.set("accept", accept);
  head.headers.set("accept-encoding", "identity");
  head.headers.remove("x-kintsugi-partial");
  ensure_audit_id(head);
}

void ensure_audit_id(http::RequestHead& head) {
  if (head.headers.get("audit-id").empty()) {
    head.headers.set("audit-id", random_uuid());
  }
}

http::HeaderList passed_headers(const http::ResponseHead& answer) {
  http::HeaderList headers;
  for (const std::string_view name : {"content-type", "retry-after", "cache-control"}) {
    const std::string_view value = answer.headers.get(name);
    if (value.data() != nullptr) {
      headers.add(name, value);
    }
  }
  return headers;
}

}  // namespace kintsugi::aggregation
