#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "http/handler.h"

namespace kintsugi::serving {

/// A request that a handler behind answers, between the two: everything is passed on as it is, and
/// whoever derives from it changes what it wants to. Threads: its loop.
class PassThrough : public http::ResponseStream, public http::RequestHandler {
 public:
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    stream_.send_head(status, headers, end);
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    stream_.send_data(bytes, end);
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    stream_.send_data(std::move(bytes), end);
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    stream_.send_trailers(trailers);
  }
  void reset(Errc cause) noexcept override { stream_.reset(cause); }
  void consume(std::size_t bytes) noexcept override { stream_.consume(bytes); }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return stream_.unsent_bytes();
  }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return stream_.peer(); }
  void close_connection_after() noexcept override { stream_.close_connection_after(); }

  void on_data(std::string_view bytes, bool end) noexcept override { inner_->on_data(bytes, end); }
  void on_trailers(http::HeaderList trailers) noexcept override {
    inner_->on_trailers(std::move(trailers));
  }
  void on_drained() noexcept override { inner_->on_drained(); }
  void on_close(Errc cause) noexcept override { inner_->on_close(cause); }

 protected:
  /// @param stream  the client's side.
  explicit PassThrough(http::ResponseStream& stream) : stream_(stream) {}
  /// Once, when the derived object is complete: the answer may come before this returns.
  /// @param request  an http::RequestHead, or what the handler behind takes instead.
  template <class Handler, class Request>
  void begin(Handler& inner, Request&& request) {
    inner_ = inner.on_request(std::forward<Request>(request), *this);
  }
  /// The same with something that is called with the stream for the answer, and returns who
  /// answers.
  template <class Ask>
  void begin_as(Ask&& ask) {
    inner_ = std::forward<Ask>(ask)(static_cast<http::ResponseStream&>(*this));
  }

 private:
  http::ResponseStream& stream_;
  std::unique_ptr<http::RequestHandler> inner_;
};

}  // namespace kintsugi::serving
