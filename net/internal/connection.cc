#include "net/internal/connection.h"

#include <algorithm>
#include <span>
#include <utility>

namespace kintsugi::net {
namespace {

constexpr auto kLinger = seconds(1);       // offenders are to be gone within 2 s (T86)
constexpr std::size_t kLeastRoom = 1'024;  ///< less makes no frame worth sending [bytes]

}  // namespace

Connection::Connection(Loop& loop, int fd) noexcept
    : loop_(loop), transport_(loop.scratch(), fd), last_read_(loop.now()), timer_(loop) {}

Connection::~Connection() {
  loop_.unmark_dirty(*this);
  loop_.forget(transport_.fd());
}

void Connection::begin(SslPtr ssl) {
  const bool tls = ssl != nullptr;
  if (tls) {
    transport_.set_tls(std::move(ssl));
  }
  loop_.watch(transport_.fd(), *this);
  if (!tls) {
    stage_ = Stage::kOpen;
    on_established();
  } else if (SSL_is_server(transport_.ssl()) == 0) {
    // The client speaks first.
    if (transport_.handshake() == Transport::Result::kBroken) {
      shut(Errc::kTls);
      return;
    }
    if (transport_.hold()) {
      loop_.mark_dirty(*this);
    }
  }
}

void Connection::on_hangup() noexcept {
  hangup_ = true;
  on_ready(true, true);
}

void Connection::on_ready(bool readable, bool writable) noexcept {
  if (stage_ == Stage::kClosed) {
    return;
  }
  if (writable && transport_.blocked()) {
    transport_.writable();
    loop_.mark_dirty(*this);
  }
  if (readable && !puts_off_reading()) {
    read_now();
  }
}

void Connection::read_now() noexcept {
  if (stage_ == Stage::kLingering) {
    discard();
  } else if (stage_ != Stage::kClosed) {
    read();
  }
}

void Connection::read() noexcept {
  if (failing_) {
    return;
  }
  if (session_ != nullptr && !session_->wants_read()) {
    read_paused_ = true;
    return;
  }
  bool full = false;
  switch (transport_.receive(full)) {
    case Transport::Result::kOk:
      break;
    case Transport::Result::kBlocked:
      return;
    case Transport::Result::kEnd:
      on_read_end();
      return;
    case Transport::Result::kBroken:
      shut(Errc::kReset);
      return;
  }
  last_read_ = loop_.now();
  if (stage_ == Stage::kHandshake) {
    const Transport::Result result = transport_.handshake();
    if (result == Transport::Result::kBroken || result == Transport::Result::kEnd) {
      shut(Errc::kTls);
      return;
    }
    if (result == Transport::Result::kOk) {
      stage_ = Stage::kOpen;
      on_established();
    }
  }
  if (stage_ == Stage::kOpen) {
    std::string_view plain;
    const Transport::Result result = transport_.decrypt(plain);
    // Replies of TLS itself (tickets, key updates) wait in the shared buffer; feeding may run other
    // code.
    (void)transport_.hold();
    if (!plain.empty()) {
      heard_ = true;
      on_bytes(plain);
    }
    if (stage_ != Stage::kOpen) {
      return;
    }
    if (result == Transport::Result::kEnd) {
      on_read_end();
      return;
    }
    if (result == Transport::Result::kBroken) {
      // TLS 1.3 servers refuse a client certificate only after our side of the handshake is done.
      shut(heard_ ? Errc::kReset : Errc::kTls);
      return;
    }
  }
  if (stage_ == Stage::kClosed) {
    return;
  }
  (void)transport_.hold();
  loop_.mark_dirty(*this);
  if (full || hangup_) {
    loop_.read_again(transport_.fd());
  }
}

void Connection::on_read_end() noexcept {
  if (read_closed_) {
    return;
  }
  on_last_bytes();
  if (stage_ == Stage::kOpen && session_ != nullptr && !failing_ && session_->on_read_closed()) {
    read_closed_ = true;
    loop_.mark_dirty(*this);
    return;
  }
  shut(Errc::kClosed);
}

void Connection::feed(std::string_view bytes) noexcept {
  if (failing_ || session_ == nullptr) {
    return;
  }
  session_->set_now(loop_.now());
  if (Expected<void> fed = session_->feed(bytes); !fed) {
    failing_ = true;
    loop_.mark_dirty(*this);
  }
}

void Connection::set_session(std::unique_ptr<http::Session> session) noexcept {
  session_ = std::move(session);
  loop_.mark_dirty(*this);
}

void Connection::output_ready() noexcept {
  if (stage_ != Stage::kClosed) {
    loop_.mark_dirty(*this);
  }
}

void Connection::flush() noexcept {
  if (stage_ == Stage::kClosed) {
    return;
  }
  if (std::exchange(looks_first_, false) && !transport_.quiet()) {
    read_now();
    if (stage_ == Stage::kClosed) {
      return;
    }
  }
  transport_.begin_send();
  Transport::Result result = Transport::Result::kOk;
  if (transport_.held() != 0) {
    result = transport_.send();
  }
  bool more = false;
  if (result == Transport::Result::kOk && session_ != nullptr && stage_ == Stage::kOpen) {
    std::size_t budget = IoScratch::kWrite;
    while (true) {
      const std::size_t room = std::min(budget, transport_.room());
      if (room < kLeastRoom) {
        more = session_->wants_write();
        break;
      }
      const std::span<char> out = transport_.unsent().first(room);
      const std::size_t count = session_->produce(out);
      if (count == 0) {
        break;
      }
      transport_.put({out.data(), count});
      budget -= count;
    }
  }
  if (result == Transport::Result::kOk) {
    result = transport_.send();
  }
  if (result == Transport::Result::kBroken) {
    shut(Errc::kReset);
    return;
  }
  if (stage_ == Stage::kLingering) {
    if (transport_.held() == 0) {
      transport_.finish();
    }
    return;
  }
  if (session_ == nullptr) {
    return;
  }
  session_->settle();
  if (stage_ == Stage::kClosed) {
    return;
  }
  const bool done = session_->finished() || (failing_ && !session_->wants_write());
  if (done && !more && transport_.held() == 0) {
    end_gracefully();
    return;
  }
  if (session_->wants_shutdown() && !write_closed_ && !more && transport_.held() == 0) {
    write_closed_ = true;
    transport_.finish();
  }
  if (read_paused_ && session_->wants_read()) {
    read_paused_ = false;
    loop_.read_again(transport_.fd());
  }
  if (more && !transport_.blocked()) {
    loop_.mark_dirty(*this);
  }
  on_flushed();
}

void Connection::drain() noexcept {
  if (stage_ == Stage::kOpen && session_ != nullptr) {
    session_->start_drain();
    loop_.mark_dirty(*this);
  } else if (stage_ != Stage::kLingering) {
    shut(Errc::kClosed);
  }
}

void Connection::end_gracefully() noexcept {
  transport_.finish();
  if (hangup_ || !lingers_) {
    shut(failing_ ? Errc::kProtocol : Errc::kClosed);
    return;
  }
  stage_ = Stage::kLingering;
  session_->on_transport_closed(failing_ ? Errc::kProtocol : Errc::kClosed);
  if (stage_ == Stage::kClosed) {
    return;
  }
  timer_.start(kLinger, [this] { shut(Errc::kClosed); });
  loop_.read_again(transport_.fd());
}

void Connection::discard() noexcept {
  bool full = false;
  const Transport::Result result = transport_.receive(full);
  if (result == Transport::Result::kEnd || result == Transport::Result::kBroken) {
    shut(Errc::kClosed);
  } else if (result == Transport::Result::kOk) {
    loop_.read_again(transport_.fd());
  }
}

void Connection::shut(Errc cause) noexcept {
  if (stage_ == Stage::kClosed) {
    return;
  }
  const bool handshake = stage_ == Stage::kHandshake;
  const bool told = stage_ == Stage::kLingering;
  if (cause != Errc::kReset && !told) {
    transport_.finish();
  }
  stage_ = Stage::kClosed;
  timer_.cancel();
  loop_.unmark_dirty(*this);
  loop_.forget(transport_.fd());
  transport_.close();
  if (session_ != nullptr && !told) {
    session_->on_transport_closed(cause);
  }
  on_dead(failing_ ? Errc::kProtocol : cause, handshake);
}

}  // namespace kintsugi::net
