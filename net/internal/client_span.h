#pragma once

#include "base/trace.h"
#include "http/handler.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::net {

/// A request of a trace that is recorded, between who asks and the connection: a span of it from
/// the opening to the end of the answer, of a watch to its head. It ends its own life. Threads: its
/// loop.
class ClientSpan final : public http::RequestStream, public http::ResponseHandler {
 public:
  ClientSpan(Loop& loop, const Url& url, const std::string& peer, UpstreamClass kind,
             const http::RequestHead& head, const TraceParent& parent,
             http::ResponseHandler& handler);
  /// What the request says of itself: that this span is its parent.
  [[nodiscard]] std::string trace_parent() const;
  /// Once: what goes on goes there.
  void begin(http::RequestStream& inner) noexcept { inner_ = &inner; }

  void send_data(std::string_view bytes, bool end) noexcept override {
    inner_->send_data(bytes, end);
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    inner_->send_data(std::move(bytes), end);
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    inner_->send_trailers(trailers);
  }
  void reset(Errc cause) noexcept override { inner_->reset(cause); }
  void consume(std::size_t bytes) noexcept override { inner_->consume(bytes); }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return inner_->unsent_bytes();
  }
  void detach() noexcept override;

  void on_head(http::ResponseHead head, bool end) noexcept override;
  void on_data(std::string_view bytes, bool end) noexcept override {
    ended_ = ended_ || end;
    handler_.on_data(bytes, end);
  }
  void on_trailers(http::HeaderList trailers) noexcept override {
    handler_.on_trailers(std::move(trailers));
  }
  void on_drained() noexcept override { handler_.on_drained(); }
  void on_close(Errc cause) noexcept override;

 private:
  /// The first one counts.
  void record(std::string_view fault) noexcept;
  void end_later() noexcept;

  Loop& loop_;
  http::ResponseHandler& handler_;
  http::RequestStream* inner_ = nullptr;
  Span span_;
  const bool is_watch_;
  bool recorded_ = false, ended_ = false;
};

}  // namespace kintsugi::net
