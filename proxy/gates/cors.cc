#include "proxy/gates/cors.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "krm/request_target.h"
#include "proxy/routing/router.h"
#include "serving/answer.h"
#include "serving/pass_through.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMostOrigin = 2'048;

re2::RE2::Options quiet() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  return options;
}

void add_fields(http::HeaderList& headers, std::string_view origin) {
  headers.add("access-control-allow-origin", origin);
  headers.add("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH");
  headers.add("access-control-allow-headers",
              "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
              "X-Requested-With, If-Modified-Since");
  headers.add("access-control-expose-headers", "Date");
  headers.add("access-control-allow-credentials", "true");
}

/// A request of an allowed origin: the answer of the handler behind it, with more fields.
class CorsAnswer final : public serving::PassThrough {
 public:
  CorsAnswer(RoutedHandler& inner, Request&& request, http::ResponseStream& stream)
      : serving::PassThrough(stream), origin_(request.head.headers.get("origin")) {
    begin(inner, std::move(request));
  }
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    http::HeaderList all = headers;
    add_fields(all, origin_);
    serving::PassThrough::send_head(status, all, end);
  }

 private:
  std::string origin_;
};

/// Probes and metrics are not for browsers, and what is cleaned is asked for anew.
bool is_left_alone(const krm::RequestTarget& target) {
  return target.form == krm::TargetForm::kProbe || target.form == krm::TargetForm::kMetrics ||
         target.form == krm::TargetForm::kInfo || target.fault == krm::TargetFault::kUnclean;
}

}  // namespace

CorsHandler::CorsHandler(const std::vector<std::string>& origins, RoutedHandler& inner,
                         bool console)
    : inner_(inner), console_(console) {
  for (const std::string& origin : origins) {
    origins_.push_back(std::make_unique<re2::RE2>(origin, quiet()));
  }
}

CorsHandler::~CorsHandler() = default;

bool CorsHandler::allows(const http::RequestHead& head) const {
  const std::string_view origin = head.headers.get("origin");
  return !origin.empty() && origin.size() <= kMostOrigin &&
         std::any_of(origins_.begin(), origins_.end(), [origin](const auto& pattern) {
           return re2::RE2::PartialMatch({origin.data(), origin.size()}, *pattern);
         });
}

std::unique_ptr<http::RequestHandler> CorsHandler::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  const http::RequestHead& head = request.head;
  if (origins_.empty() || !allows(head) || is_left_alone(request.target) ||
      (console_ && is_console(head.target))) {
    return inner_.on_request(std::move(request), stream);
  }
  if (head.method == "OPTIONS") {
    http::HeaderList headers;
    add_fields(headers, head.headers.get("origin"));
    stream.send_head(204, headers, true);
    return serving::swallow(stream);
  }
  return std::make_unique<CorsAnswer>(inner_, std::move(request), stream);
}

bool is_origin_pattern(const std::string& text) { return re2::RE2(text, quiet()).ok(); }

}  // namespace kintsugi::proxy
