#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "apiserver/internal/openapi.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "base/time.h"
#include "http/gzip.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kV2 = "/openapi/v2";
constexpr std::string_view kV3 = "/openapi/v3";
constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kV2Asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
constexpr std::string_view kV2Sent = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
constexpr std::int64_t kYear = 365 * 24 * 3600;  ///< [s]

bool is_json(std::string_view type) {
  return type == kJsonType || type == "application/*" || type == "*/*";
}

std::string in_a_year() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t when = unix_seconds() + kYear;
  std::tm utc{};
  gmtime_r(&when, &utc);
  char rest[32];
  const std::size_t size = std::strftime(rest, sizeof rest, " %Y %H:%M:%S GMT", &utc);
  std::string day = std::to_string(utc.tm_mday);
  return std::string(kDays[utc.tm_wday]) + ", " + (day.size() == 1 ? "0" : "") + day + " " +
         kMonths[utc.tm_mon] + std::string(rest, size);
}

/// 404 and 406 of documents have no body (AM-129).
void send_empty(Request& request, int status) {
  http::HeaderList headers = answer_headers(request, kJsonType);
  headers.remove("content-type");
  send_body(request, status, std::move(headers), std::string());
}

/// The body, or 304 for who has it.
template <class MakeBody>
void send_tagged(Request& request, http::HeaderList headers, const std::string& hash,
                 MakeBody make_body) {
  const std::string tag = '"' + hash + '"';
  headers.add("etag", tag);
  headers.add("vary", "Accept");
  if (request.header("if-none-match") == tag) {
    headers.remove("content-type");
    send_body(request, 304, std::move(headers), std::string());
    return;
  }
  send_body(request, 200, std::move(headers), make_body());
}

/// One buffer for all its readers: whoever does not read holds no copy of his own (SE-090).
void send_v2_form(Request& request, bool protobuf) {
  OpenApi& openapi = request.server.openapi(request);
  http::HeaderList headers = answer_headers(request, protobuf ? kV2Sent : kJsonType);
  const std::string tag = '"' + openapi.v2_hash(request.cluster, protobuf) + '"';
  headers.add("etag", tag);
  headers.add("vary", "Accept");
  if (request.header("if-none-match") == tag) {
    headers.remove("content-type");
    send_body(request, 304, std::move(headers), std::string());
    return;
  }
  const bool gzip = http::accepts_gzip(request.header("accept-encoding"));  // none is small
  if (gzip) {
    headers.add("content-encoding", "gzip");
    headers.add("vary", "Accept-Encoding");
  }
  send_shared_body(request, 200, std::move(headers),
                   openapi.v2_buffer(request.cluster, protobuf, gzip));
}

void send_v2(Request& request) {
  for (const AcceptClause& clause : request.accept) {
    const bool protobuf = clause.type == kV2Asked || clause.type == kV2Sent;
    if (protobuf || is_json(clause.type)) {
      send_v2_form(request, protobuf);
      return;
    }
  }
  send_empty(request, 406);
}

bool accepts_json(const Request& request) {
  for (const AcceptClause& clause : request.accept) {
    if (is_json(clause.type)) {
      return true;
    }
  }
  return false;
}

void send_v3(Request& request, std::string_view key) {
  OpenApi& openapi = request.server.openapi(request);
  if (key.empty()) {
    std::string body = openapi.index(request.cluster, request.api_root);
    const std::string hash = openapi_hash(body);
    send_tagged(request, answer_headers(request, kJsonType), hash, [&] { return std::move(body); });
    return;
  }
  const OpenApi::DocumentPtr document = openapi.document(request.cluster, key);
  if (document == nullptr) {
    send_empty(request, 404);
    return;
  }
  http::HeaderList headers = answer_headers(request, kJsonType);
  if (const std::optional<std::string_view> hash = request.info.query.get("hash")) {
    if (*hash != document->hash) {
      headers.remove("content-type");
      headers.add("location", request.api_root + std::string(kV3) + "/" + std::string(key) +
                                  "?hash=" + document->hash);
      send_body(request, 301, std::move(headers), std::string());
      return;
    }
    headers.set("cache-control", "public, immutable");
    headers.add("expires", in_a_year());
  }
  send_tagged(request, std::move(headers), document->hash, [&] { return document->json; });
}

}  // namespace

bool is_openapi_path(std::string_view path) noexcept {
  return path == kV2 || path == kV3 ||
         (path.starts_with(kV3) && path.size() > kV3.size() && path[kV3.size()] == '/');
}

void handle_openapi(const RequestPtr& request) {
  const std::string& method = request->head.method;
  if (method != "GET" && method != "HEAD") {
    send_error(*request, krm::method_not_allowed());
    return;
  }
  if (!request->registry().ready(request->cluster)) {
    send_error(*request, krm::unavailable("the resource definitions are still being loaded", 1));
    return;
  }
  std::string_view path = request->info.path;
  if (path == kV2) {
    send_v2(*request);
    return;
  }
  if (!accepts_json(*request)) {
    send_empty(*request, 406);
    return;
  }
  path.remove_prefix(kV3.size());
  if (path == "/") {
    send_empty(*request, 200);  // the index has no slash; neither do the reference servers fail
    return;
  }
  while (!path.empty() && path.front() == '/') {
    path.remove_prefix(1);
  }
  send_v3(*request, path);
}

}  // namespace kintsugi::apiserver::internal
