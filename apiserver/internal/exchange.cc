#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "apiserver/internal/audit.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/request.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "auth/payer.h"
#include "auth/x509_identity.h"
#include "base/guard.h"
#include "base/strings.h"
#include "base/time.h"
#include "serving/fair_seats.h"

namespace kintsugi::apiserver::internal {

void Request::warn(std::string text) {
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
    warnings.push_back(std::move(text));
  }
}

bool take_seat(Request& request) {
  request.seat_due = false;
  std::optional<Seat> seat = request.server.concurrency().try_enter(pool_of(request));
  if (!seat) {
    request.server.request_refused();
    return false;
  }
  request.seat = std::move(*seat);
  return true;
}

Exchange::~Exchange() { release_request(); }

void Exchange::start(RequestPtr request) {
  request_ = std::move(request);
  request_->exchange = this;
  if (server_.params().audit) {
    request_->received_at = unix_microseconds();
  }
  request_->body_complete = request_->head.end_stream;
  if (!request_->head.end_stream && request_->head.protocol.empty()) {
    request_->hold = std::make_unique<net::BodyHold>(server_.bodies(),
                                                     static_cast<net::BodyHold::Owner&>(*this));
  }
  server_.request_started();
  begin_request(request_);
}

bool Exchange::is_from_proxy() const noexcept {
  const auth::CertificateIdentity* certificate = auth::certificate_of(stream_.peer());
  return certificate != nullptr && certificate->valid && certificate->from_request_header_ca;
}

Duration Exchange::waited() const noexcept {
  constexpr std::uint64_t kMost = 60'000;
  const std::string_view text = request_->header(serving::kWaitedHeader);
  if (text.empty() || !is_from_proxy()) {
    return Duration::zero();
  }
  const std::optional<std::uint64_t> value = parse_decimal(text);
  return value ? milliseconds(static_cast<std::int64_t>(std::min(*value, kMost)))
               : Duration::zero();
}

net::BodyPayer Exchange::body_payer() const {
  const Request& request = *request_;
  const bool is_proxy = is_from_proxy();
  const auth::UserInfo& user = request.impersonator ? *request.impersonator : request.user;
  net::BodyPayer payer = auth::payer_of(
      user, is_proxy ? auth::last_forwarded(request.head.headers) : stream_.peer().address,
      server_.tenants().tree_of);
  if (!is_proxy) {
    payer.connection = auth::connection_of(stream_.peer());
  }
  return payer;
}

void Exchange::refuse_body(const Error& error) noexcept {
  if (const RequestPtr request = request_) {
    if (request->head.version < 2) {
      stream_.close_connection_after();
    }
    send_error(*request, error);
  }
}

bool Exchange::take_body(Request& request, std::string_view bytes) {
  if (request.body.size() + bytes.size() > server_.params().max_body) {
    request.body_too_large = true;
    request.body = std::string();
    if (request.hold != nullptr) {
      request.hold->shrink(0);
    }
  }
  if (request.body_too_large || request.hold == nullptr) {
    stream_.consume(bytes.size());
  } else if (Expected<void> room = request.hold->add(bytes.size()); !room) {
    stream_.consume(bytes.size());
    request.body = std::string();
    refuse_body(room.error());
    return false;
  }
  if (!request.body_too_large) {
    request.body.append(bytes);
  }
  return true;
}

void Exchange::on_data(std::string_view bytes, bool end) noexcept {
  const RequestPtr request = request_;
  if (request == nullptr) {
    stream_.consume(bytes.size());
  } else if (!take_body(*request, bytes)) {
    return;
  }
  if (request != nullptr && end && request->hold != nullptr) {
    request->hold->finish();
  }
  if (request == nullptr && producer_ != nullptr) {
    producer_->on_data(bytes, end);
  }
  if (request == nullptr || (!end && !request->body_too_large)) {
    return;
  }
  request->body_complete = request->body_complete || end;
  if (request->on_body) {
    const std::function<void()> go_on = std::exchange(request->on_body, nullptr);
    if (!guarded("request body", go_on)) {
      stream_.reset(Errc::kInternal);
    }
  }
}

void Exchange::on_trailers(http::HeaderList trailers) noexcept {
  (void)trailers;
  on_data({}, true);
}

void Exchange::on_drained() noexcept {
  if (producer_ != nullptr) {
    producer_->on_drained();
  }
}

void Exchange::on_close(Errc cause) noexcept {
  (void)cause;
  release_request();
  producer_.reset();
  seat_.give_back();
  pass_.reset();
  open_.reset();
}

void Exchange::release_request() noexcept {
  if (request_ == nullptr) {
    return;
  }
  if (server_.params().audit) {
    guarded("audit line", [this] { server_.params().audit(audit_line(*request_)); });
  }
  request_->exchange = nullptr;
  request_->on_body = nullptr;
  request_->deadline.cancel();
  if (request_->hold != nullptr) {
    request_->hold->abandon();
  }
  server_.request_ended();
  if (request_->turn.waits() || request_->seat.pool() == Pool::kWatchStarts) {
    request_->turn.leave();
  }
  if (producer_ != nullptr && !request_->pass.is_empty()) {
    pass_ = std::make_unique<serving::RequestLimiter::Pass>(std::move(request_->pass));
  }
  if (producer_ != nullptr && !request_->open.is_empty()) {
    open_ = std::make_unique<serving::RequestLimiter::Pass>(std::move(request_->open));
  }
  if (request_->seat.pool() == Pool::kWatchStarts) {
    request_->seat.give_back();
  } else if (producer_ != nullptr) {
    seat_ = std::move(request_->seat);
  }
  // The caller may still be working with it; what does keeps the seat.
  server_.loop().defer([request = std::move(request_)] {});
  request_ = nullptr;
}

}  // namespace kintsugi::apiserver::internal
