#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "http/handler.h"
#include "http/session.h"
#include "net/loop.h"

namespace kintsugi::net {

class Pool;

/// A request that waits for a connection: keeps what is sent until a session stream exists, then
/// passes everything on. Only requests that had to wait pay for it. Owns itself: destroyed at the
/// end of the turn of on_close or detach.
class QueuedStream final : public http::RequestStream, public http::ResponseHandler {
 public:
  QueuedStream(Loop& loop, Pool& pool, http::RequestHead head, http::ResponseHandler& user,
               bool exclusive)
      : loop_(loop),
        pool_(&pool),
        user_(&user),
        waiting_(std::make_unique<Waiting>()),
        exclusive_(exclusive) {
    waiting_->head = std::move(head);
  }

  /// Moves the request into a session. @returns kOk; or why the session did not take it, and the
  /// stream still waits: kOverloaded and kNotProcessed may pass with another connection, everything
  /// else is a fault of the request (SE-118).
  [[nodiscard]] Errc attach(http::ClientSession& session);
  /// on_close(cause) now, then the end.
  void close_unsent(Errc cause);

  void send_data(std::string_view bytes, bool end) noexcept override;
  void send_data(SharedBytes bytes, bool end) noexcept override;
  void send_trailers(const http::HeaderList& trailers) noexcept override;
  void reset(Errc cause) noexcept override;
  void consume(std::size_t bytes) noexcept override;
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override;
  void detach() noexcept override;

  void on_head(http::ResponseHead head, bool end) noexcept override;
  void on_data(std::string_view bytes, bool end) noexcept override;
  void on_trailers(http::HeaderList trailers) noexcept override;
  void on_drained() noexcept override;
  void on_close(Errc cause) noexcept override;

  [[nodiscard]] bool exclusive() const noexcept { return exclusive_; }
  /// Of a request that still waits.
  [[nodiscard]] const std::string& method() const noexcept { return waiting_->head.method; }

  // The pool's list and what it keeps with the entry.
  QueuedStream* next = nullptr;
  QueuedStream* previous = nullptr;
  TimePoint deadline{};
  Errc failure = Errc::kOk;  ///< not kOk: waits on the list of the failed

 private:
  struct Waiting {
    http::RequestHead head;
    std::string body;
    std::optional<http::HeaderList> trailers;
    bool end = false;
  };
  ~QueuedStream() = default;
  void release();

  Loop& loop_;
  Pool* pool_;                             // while it waits
  http::ResponseHandler* user_;            // null after detach
  http::RequestStream* target_ = nullptr;  // once it runs
  std::unique_ptr<Waiting> waiting_;       // until then
  bool exclusive_;
  bool done_ = false;
};

/// Intrusive FIFO.
class StreamList {
 public:
  void push_back(QueuedStream& stream) noexcept;
  void push_front(QueuedStream& stream) noexcept;
  void remove(QueuedStream& stream) noexcept;
  [[nodiscard]] QueuedStream* front() const noexcept { return head_; }
  QueuedStream* pop_front() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  QueuedStream* head_ = nullptr;
  QueuedStream* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::net
