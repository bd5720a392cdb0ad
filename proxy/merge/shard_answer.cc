#include "proxy/merge/shard_answer.h"

#include <random>

#include "base/strings.h"

namespace kintsugi::proxy {

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
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<int> pick(1, 5);
  Error error(watch ? Errc::kTooManyRequests : Errc::kUnavailable);
  ErrorDetail& detail = error.edit();
  detail.message = "some shards cannot be asked now:";
  for (const auto& [shard, cause] : causes) {
    (detail.message += ' ') += shard;
    detail.causes.push_back({"ShardUnavailable", cause, shard});
  }
  detail.retry_after_seconds = pick(random);
  return error;
}

void ask_as(http::RequestHead& head, std::string_view accept) {
  head.headers.set("accept", accept);
  head.headers.set("accept-encoding", "identity");
  if (!head.headers.contains("audit-id")) {
    head.headers.add("audit-id", random_uuid());
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

std::string_view media_type(std::string_view content_type) noexcept {
  return trim(content_type.substr(0, content_type.find(';')));
}

}  // namespace kintsugi::proxy
