#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/handler.h"

namespace kintsugi::serving {

/// Holds a request until it is known how it goes on; bytes of its body wait in the stream's window.
/// Threads: its loop.
class WaitingRequest final : public http::RequestHandler {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  WaitingRequest() : self_(std::make_shared<WaitingRequest*>(this)) {}
  ~WaitingRequest() override { *self_ = nullptr; }
  void on_data(std::string_view bytes, bool end) noexcept override {
    if (next_) {
      next_->on_data(bytes, end);
      return;
    }
    early_.append(bytes);
    ended_ = end;
  }
  void on_trailers(http::HeaderList trailers) noexcept override {
    if (next_) {
      next_->on_trailers(std::move(trailers));
    } else {
      ended_ = true;
    }
  }
  void on_drained() noexcept override {
    if (next_) {
      next_->on_drained();
    }
  }
  void on_close(Errc cause) noexcept override {
    closed_ = true;
    if (next_) {
      next_->on_close(cause);
    }
  }
  [[nodiscard]] std::shared_ptr<WaitingRequest*> weak() const { return self_; }
  [[nodiscard]] bool closed() const { return closed_; }
  void go_on(Answer next) {
    next_ = std::move(next);
    if (!early_.empty() || ended_) {
      next_->on_data(early_, ended_);
      early_ = {};
    }
  }

 private:
  std::shared_ptr<WaitingRequest*> self_;
  Answer next_;
  std::string early_;
  bool ended_ = false, closed_ = false;
};

}  // namespace kintsugi::serving
