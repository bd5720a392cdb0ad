#include "apiserver/internal/respond.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "http/gzip.h"
#include "krm/json.h"
#include "krm/not_permitted.h"
#include "krm/protobuf.h"
#include "krm/status.h"
#include "krm/yaml.h"
#include "serving/fair_seats.h"
#include "serving/moving.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kWarningTotal = 4'096;
constexpr std::size_t kWarningCut = 256;

/// IMF-fixdate, made once a second.
std::string_view http_date() {
  thread_local std::int64_t made_at = -1;
  thread_local std::array<char, 32> text{};
  const std::int64_t now = unix_seconds();
  if (now != made_at) {
    static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t clock = now;
    std::tm utc{};
    gmtime_r(&clock, &utc);
    std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                  kDays[utc.tm_wday], utc.tm_mday % 100, kMonths[utc.tm_mon],
                  (utc.tm_year + 1900) % 10000, utc.tm_hour % 100, utc.tm_min % 100,
                  utc.tm_sec % 100);
    made_at = now;
  }
  return {text.data()};
}

std::string warning_value(std::string_view text) {
  std::string value = "299 - \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      value += '\\';
    }
    value += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  value += '"';
  return value;
}

/// The JSON text as the format wants it; an error when the format cannot hold the object.
Expected<std::string> convert(const Form& form, std::string json) {
  if (form.format == Format::kJson && !form.pretty) {
    json += '\n';
    return json;
  }
  Expected<krm::Json> parsed = krm::Json::parse(json);
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  if (form.format == Format::kYaml) {
    return krm::to_yaml(*parsed);
  }
  if (form.format == Format::kProtobuf) {
    std::optional<std::string> bytes = krm::encode_protobuf(*parsed);
    if (!bytes) {
      return fail(
          Errc::kNotAcceptable,
          "only the following media types are accepted: application/json, application/yaml");
    }
    return std::move(*bytes);
  }
  std::string text = parsed->dump_pretty();
  if (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

}  // namespace

void add_warnings(http::HeaderList& headers, const std::vector<std::string>& warnings) {
  std::size_t total = 0;
  for (const std::string& text : warnings) {
    total += text.size();
  }
  const bool cut = total > kWarningTotal;
  std::size_t used = 0;
  std::vector<std::string_view> seen;
  for (const std::string& text : warnings) {
    const std::string_view shown = cut ? std::string_view(text).substr(0, kWarningCut) : text;
    if (std::find(seen.begin(), seen.end(), shown) != seen.end()) {
      continue;
    }
    if (used + shown.size() > kWarningTotal) {
      break;
    }
    used += shown.size();
    seen.push_back(shown);
    headers.add("warning", warning_value(shown));
  }
}

http::HeaderList answer_headers(const Request& request, std::string_view type) {
  http::HeaderList headers;
  headers.add("audit-id", request.audit_id);
  headers.add("cache-control", "no-cache, private");
  headers.add("content-type", type);
  headers.add("date", http_date());
  headers.add("x-kubernetes-pf-flowschema-uid", "");
  headers.add("x-kubernetes-pf-prioritylevel-uid", "");
  if (!request.access.empty()) {
    headers.add(krm::kAccessHeader, request.access);
  }
  add_warnings(headers, request.warnings);
  return headers;
}

void send_body(Request& request, int status, http::HeaderList headers, std::string body) {
  if (request.is_gone()) {
    return;
  }
  if (body.size() > http::kGzipThreshold && http::accepts_gzip(request.header("accept-encoding"))) {
    std::string packed;
    http::Gzip().write(body, true, packed);
    body = std::move(packed);
    headers.add("content-encoding", "gzip");
    headers.add("vary", "Accept-Encoding");
  }
  if (status != 304) {
    headers.add("content-length", std::to_string(body.size()));
  }
  request.status = status;
  http::ResponseStream& stream = request.exchange->stream();
  const bool bodiless = request.head.method == "HEAD" || body.empty();
  stream.send_head(status, headers, bodiless);
  if (!bodiless) {
    stream.send_data(body, true);
  }
  request.exchange->release_request();
}

void send_shared_body(Request& request, int status, http::HeaderList headers, SharedBytes body) {
  if (request.is_gone()) {
    return;
  }
  headers.add("content-length", std::to_string(body.size()));
  request.status = status;
  http::ResponseStream& stream = request.exchange->stream();
  const bool bodiless = request.head.method == "HEAD" || body.empty();
  stream.send_head(status, headers, bodiless);
  if (!bodiless) {
    stream.send_data(std::move(body), true);
  }
  request.exchange->release_request();
}

void send_json(Request& request, int status, std::string json) {
  if (request.is_gone()) {
    return;
  }
  Expected<std::string> body = convert(request.form, std::move(json));
  if (!body) {
    if (request.form.format == Format::kJson) {
      send_text(request, 500, "internal server error");
      return;
    }
    request.form = Form();
    send_error(request, body.error());
    return;
  }
  send_body(request, status, answer_headers(request, content_type(request.form.format)),
            std::move(*body));
}

void send_error(Request& request, const Error& error) {
  http::HeaderList more;
  if (serving::tells_of_move(error)) {
    more.add(serving::kMovingHeader, "1");
  }
  send_status(request, krm::http_status(error), krm::to_status(error), std::move(more));
}

void send_status(Request& request, int code, const krm::Json& status, http::HeaderList more) {
  if (request.is_gone()) {
    return;
  }
  request.form.shape = Shape::kObject;  // AM-095
  request.form.format = error_format(request.accept);
  Expected<std::string> body = convert(request.form, status.dump());
  if (!body) {
    request.form = Form();
    body = convert(request.form, status.dump());
  }
  http::HeaderList headers = answer_headers(request, content_type(request.form.format));
  if (code == 403) {
    headers.add("x-content-type-options", "nosniff");  // the message holds what the client sent
  }
  if (code == 429) {  // whose share is used up (SE-094)
    const auth::UserInfo& payer =
        request.impersonator != nullptr ? *request.impersonator : request.user;
    headers.set("x-kubernetes-pf-prioritylevel-uid", serving::level_name(serving::level_of(payer)));
  }
  const krm::Json* retry = status.at({"details", "retryAfterSeconds"});
  if (retry != nullptr) {
    headers.add("retry-after", std::to_string(retry->as_integer()));
  }
  for (std::size_t i = 0; i < more.size(); ++i) {
    headers.add(more[i].name, more[i].value);
  }
  send_body(request, code, std::move(headers), body ? std::move(*body) : std::string());
}

bool is_store_fault(const Error& error) noexcept {
  return error.code() == Errc::kIo || error.code() == Errc::kFull;
}

Error store_fault(const Error& error, std::string_view operation, const ResourceDef& def) {
  log_error(
      "the store failed",
      {{"operation", operation}, {"resource", def.qualified_name()}, {"error", error.to_string()}});
  return krm::store_fault(operation, def.group, def.plural);
}

void send_text(Request& request, int status, std::string_view text, bool nosniff) {
  if (request.is_gone()) {
    return;
  }
  http::HeaderList headers = answer_headers(request, "text/plain; charset=utf-8");
  if (nosniff) {
    headers.add("x-content-type-options", "nosniff");
  }
  send_body(request, status, std::move(headers), std::string(text));
}

void send_unknown_path(Request& request) { send_text(request, 404, "404 page not found\n"); }

void send_stream(Request& request, http::HeaderList headers, std::unique_ptr<Producer> producer,
                 int status) {
  if (request.is_gone()) {
    return;
  }
  request.status = status;
  request.streams = true;
  Exchange& exchange = *request.exchange;
  exchange.stream().send_head(status, headers, false);
  exchange.set_producer(std::move(producer));
  exchange.release_request();
}

}  // namespace kintsugi::apiserver::internal
