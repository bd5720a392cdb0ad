#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "http/handler.h"
#include "serving/pass_through.h"
#include "serving/request_limits.h"

namespace kintsugi::serving {

/// A request that counts against limits until its stream is closed. Threads: its loop.
class LimitedRequest final : public http::RequestHandler {
 public:
  LimitedRequest(std::unique_ptr<http::RequestHandler> inner, RequestLimiter::Pass pass)
      : inner_(std::move(inner)), pass_(std::move(pass)) {}
  void on_data(std::string_view bytes, bool end) noexcept override { inner_->on_data(bytes, end); }
  void on_trailers(http::HeaderList trailers) noexcept override {
    inner_->on_trailers(std::move(trailers));
  }
  void on_drained() noexcept override { inner_->on_drained(); }
  void on_close(Errc cause) noexcept override {
    inner_->on_close(cause);
    pass_.give_back();
  }

 private:
  std::unique_ptr<http::RequestHandler> inner_;
  RequestLimiter::Pass pass_;
};

/// The same of one whose answer tells whether anything was done: 429 gives its tokens back
/// (SE-077).
class ChargedRequest final : public PassThrough {
 public:
  ChargedRequest(http::ResponseStream& stream, RequestLimiter::Pass pass)
      : PassThrough(stream), pass_(std::move(pass)) {}
  /// @param answer  answers into the stream that it is given, and is what closes it
  template <class Answer>
  void begin_with(Answer&& answer) {
    begin_as(std::forward<Answer>(answer));
  }
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    if (status == kTooMany) {
      pass_.take_back();
    }
    PassThrough::send_head(status, headers, end);
  }
  void on_close(Errc cause) noexcept override {
    PassThrough::on_close(cause);
    pass_.give_back();
  }

 private:
  static constexpr int kTooMany = 429;
  RequestLimiter::Pass pass_;
};

}  // namespace kintsugi::serving
