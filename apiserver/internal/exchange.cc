#include <algorithm>
#include <utility>

#include "apiserver/internal/audit.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/request.h"
#include "apiserver/internal/server_impl.h"
#include "base/guard.h"
#include "base/time.h"

namespace kintsugi::apiserver::internal {

void Request::warn(std::string text) {
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
    warnings.push_back(std::move(text));
  }
}

Exchange::~Exchange() {
  release_request();
  leave_pool();
}

bool Exchange::enter(Pool pool) noexcept {
  if (!server_.concurrency().try_enter(pool)) {
    return false;
  }
  pool_ = pool;
  return true;
}

void Exchange::leave_pool() noexcept {
  if (pool_ != Pool::kNone) {
    server_.concurrency().leave(std::exchange(pool_, Pool::kNone));
  }
}

void Exchange::start(RequestPtr request) {
  request_ = std::move(request);
  request_->exchange = this;
  if (server_.params().audit) {
    request_->received_at = unix_microseconds();
  }
  request_->body_complete = request_->head.end_stream;
  server_.request_started();
  begin_request(request_);
}

void Exchange::on_data(std::string_view bytes, bool end) noexcept {
  const RequestPtr request = request_;
  if (request != nullptr && !request->body_too_large) {
    if (request->body.size() + bytes.size() > server_.params().max_body) {
      request->body_too_large = true;
      request->body = std::string();
    } else {
      request->body.append(bytes);
    }
  }
  stream_.consume(bytes.size());
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
  leave_pool();
}

void Exchange::release_request() noexcept {
  if (request_ == nullptr) {
    return;
  }
  if (server_.params().audit) {
    server_.params().audit(audit_line(*request_));
  }
  request_->exchange = nullptr;
  request_->on_body = nullptr;
  request_->deadline.cancel();
  server_.request_ended();
  if (producer_ == nullptr || pool_ == Pool::kWatchStarts) {
    leave_pool();
  }
  // The caller may still be working with it.
  server_.loop().defer([request = std::move(request_)] {});
  request_ = nullptr;
}

}  // namespace kintsugi::apiserver::internal
