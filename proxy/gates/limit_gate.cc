#include "proxy/gates/limit_gate.h"

#include <string_view>

#include "http/guarded_answer.h"
#include "serving/answer.h"
#include "serving/fair_seats.h"
#include "serving/identity.h"
#include "serving/limited_request.h"

namespace kintsugi::proxy {
namespace {

/// Whoever runs the proxy is told whether it lives, however much is asked of it.
bool is_health_check(std::string_view target) noexcept {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const std::string_view check : {"/livez", "/readyz", "/healthz"}) {
    if (path.starts_with(check) && (path.size() == check.size() || path[check.size()] == '/')) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<http::RequestHandler> LimitGate::on_request(Request&& request,
                                                            http::ResponseStream& stream) noexcept {
  const serving::RequestLimiter& limits = limits_->requests();
  if ((!limits.limits(serving::LimitOf::kUser) &&
       !limits.limits(serving::LimitOf::kUnauthenticated) && !is_shedding()) ||
      is_health_check(request.head.target)) {
    return inner_.on_request(std::move(request), stream);
  }
  const bool head_only = std::string_view(request.head.method) == "HEAD";
  return http::guarded_answer("limit gate", stream, head_only,
                              [&] { return judge(std::move(request), stream); });
}

std::unique_ptr<http::RequestHandler> LimitGate::judge(Request&& request,
                                                       http::ResponseStream& stream) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  const bool is_user = identity != nullptr && identity->user;
  const serving::Level level =
      is_user ? serving::level_of(*identity->user) : serving::Level::kUnknown;
  if (level == serving::Level::kSystem) {
    return inner_.on_request(std::move(request), stream);
  }
  if (is_shedding() && serving::is_bounded(level)) {
    pressure_->count(serving::ShedStep::kTenants);
    return serving::answer_error(request.head, stream, serving::memory_is_short());
  }
  const net::BodyPayer payer = payer_(stream.peer(), request.head.headers);
  serving::RequestLimiter::Pass pass;
  Expected<void> room = limits_->requests().charge(
      pass, payer.known ? serving::LimitOf::kUser : serving::LimitOf::kUnauthenticated, payer.name,
      request.target.is_watch, loop_.now());
  if (!room) {
    return refusals_.answer(request.head, stream, std::move(room).error());
  }
  if (pass.is_empty()) {
    return inner_.on_request(std::move(request), stream);
  }
  auto charged = std::make_unique<serving::ChargedRequest>(stream, std::move(pass));
  charged->begin_with(
      [&](http::ResponseStream& answer) { return inner_.on_request(std::move(request), answer); });
  return charged;
}

}  // namespace kintsugi::proxy
