#include "net/internal/queued_stream.h"

#include <utility>

#include "net/internal/pool.h"

namespace kintsugi::net {

Errc QueuedStream::attach(http::ClientSession& session) {
  Expected<http::RequestStream*> opened = session.open(waiting_->head, *this);
  if (!opened) {
    return opened.error().code();
  }
  target_ = *opened;
  pool_ = nullptr;
  const std::unique_ptr<Waiting> sent = std::move(waiting_);
  if (sent->trailers) {
    if (!sent->body.empty()) {
      target_->send_data(sent->body, false);
    }
    target_->send_trailers(*sent->trailers);
  } else if (!sent->body.empty() || sent->end) {
    target_->send_data(sent->body, sent->end);
  }
  return Errc::kOk;
}

void QueuedStream::close_unsent(Errc cause) {
  pool_ = nullptr;
  on_close(cause);
}

void QueuedStream::send_data(std::string_view bytes, bool end) noexcept {
  if (target_ != nullptr) {
    target_->send_data(bytes, end);
  } else if (!done_) {
    waiting_->body.append(bytes);
    waiting_->end = waiting_->end || end;
  }
}

void QueuedStream::send_data(SharedBytes bytes, bool end) noexcept {
  if (target_ != nullptr) {
    target_->send_data(std::move(bytes), end);
  } else {
    send_data(bytes.view(), end);
  }
}

void QueuedStream::send_trailers(const http::HeaderList& trailers) noexcept {
  if (target_ != nullptr) {
    target_->send_trailers(trailers);
  } else if (!done_) {
    waiting_->trailers = trailers;
  }
}

void QueuedStream::reset(Errc cause) noexcept {
  if (target_ != nullptr) {
    target_->reset(cause);
  } else if (!done_ && failure == Errc::kOk) {
    pool_->fail_later(*this, cause);
  }
}

void QueuedStream::consume(std::size_t bytes) noexcept {
  if (target_ != nullptr) {
    target_->consume(bytes);
  }
}

std::size_t QueuedStream::unsent_bytes() const noexcept {
  return target_ != nullptr    ? target_->unsent_bytes()
         : waiting_ != nullptr ? waiting_->body.size()
                               : 0;
}

void QueuedStream::detach() noexcept {
  if (done_) {
    return;
  }
  user_ = nullptr;
  if (target_ != nullptr) {
    std::exchange(target_, nullptr)->detach();
  } else if (pool_ != nullptr) {
    pool_->withdraw(*this);
  }
  release();
}

void QueuedStream::on_head(http::ResponseHead head, bool end) noexcept {
  if (user_ != nullptr) {
    user_->on_head(std::move(head), end);
  }
}

void QueuedStream::on_data(std::string_view bytes, bool end) noexcept {
  if (user_ != nullptr) {
    user_->on_data(bytes, end);
  }
}

void QueuedStream::on_trailers(http::HeaderList trailers) noexcept {
  if (user_ != nullptr) {
    user_->on_trailers(std::move(trailers));
  }
}

void QueuedStream::on_drained() noexcept {
  if (user_ != nullptr) {
    user_->on_drained();
  }
}

void QueuedStream::on_close(Errc cause) noexcept {
  target_ = nullptr;
  if (done_) {
    return;
  }
  http::ResponseHandler* user = std::exchange(user_, nullptr);
  release();
  if (user != nullptr) {
    user->on_close(cause);
  }
}

void QueuedStream::release() {
  done_ = true;
  loop_.defer([this] { delete this; });
}

void StreamList::push_back(QueuedStream& stream) noexcept {
  stream.previous = tail_;
  stream.next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = &stream;
  tail_ = &stream;
  ++size_;
}

void StreamList::push_front(QueuedStream& stream) noexcept {
  stream.previous = nullptr;
  stream.next = head_;
  (head_ != nullptr ? head_->previous : tail_) = &stream;
  head_ = &stream;
  ++size_;
}

void StreamList::remove(QueuedStream& stream) noexcept {
  (stream.previous != nullptr ? stream.previous->next : head_) = stream.next;
  (stream.next != nullptr ? stream.next->previous : tail_) = stream.previous;
  stream.next = stream.previous = nullptr;
  --size_;
}

QueuedStream* StreamList::pop_front() noexcept {
  QueuedStream* stream = head_;
  if (stream != nullptr) {
    remove(*stream);
  }
  return stream;
}

}  // namespace kintsugi::net
