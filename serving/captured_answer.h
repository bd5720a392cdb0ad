#pragma once

#include <functional>
#include <string>
#include <utility>

#include "http/handler.h"

namespace kintsugi::serving {

/// An in-process client of a handler: collects one answer. Threads: the handler's.
class CapturedAnswer final : public http::ResponseStream {
 public:
  /// @param peer   must live as long.
  /// @param on_end runs once, when the answer is complete or was cut off.
  CapturedAnswer(const http::PeerInfo& peer, std::function<void()> on_end)
      : peer_(peer), on_end_(std::move(on_end)) {}
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    status_ = status;
    headers_ = headers;
    note_end(end);
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    body_.append(bytes);
    note_end(end);
  }
  void send_data(SharedBytes bytes, bool end) noexcept override { send_data(bytes.view(), end); }
  void send_trailers(const http::HeaderList& /*trailers*/) noexcept override { note_end(true); }
  void reset(Errc /*cause*/) noexcept override { note_end(true); }
  void consume(std::size_t /*bytes*/) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override { return 0; }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }
  void close_connection_after() noexcept override {}

  [[nodiscard]] bool ended() const { return ended_; }
  /// Forgets what came, for another request.
  void reset_answer() {
    status_ = 0;
    headers_ = {};
    body_.clear();
    ended_ = false;
  }
  [[nodiscard]] int status() const { return status_; }  ///< 0: none came
  [[nodiscard]] const http::HeaderList& headers() const { return headers_; }
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  void note_end(bool end) {
    if (end && !ended_) {
      ended_ = true;
      on_end_();
    }
  }

  const http::PeerInfo& peer_;
  std::function<void()> on_end_;
  int status_ = 0;
  http::HeaderList headers_;
  std::string body_;
  bool ended_ = false;
};

}  // namespace kintsugi::serving
