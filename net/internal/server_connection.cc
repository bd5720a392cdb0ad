#include "net/internal/server_connection.h"

#include <algorithm>
#include <utility>

#include "http/abuse_watch.h"

namespace kintsugi::net {
namespace {

// RFC 9113 3.4
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Fed at a time: some 25 requests of a client that has asked the like before [bytes].
constexpr std::size_t kSlice = 1'024;

}  // namespace

ServerConnection::ServerConnection(Loop& loop, int fd, ServerConnectionOwner& owner,
                                   http::PeerInfo peer)
    : Connection(loop, fd), accepted_at(loop.now()), owner_(&owner), peer_(std::move(peer)) {
  lingers_ = true;
}

void ServerConnection::start(SslPtr ssl) {
  if (ssl != nullptr) {
    timer_.start(owner_->params().handshake_timeout, [this] { give_up(); });
  }
  begin(std::move(ssl));
}

bool ServerConnection::puts_off_reading() noexcept {
  if (stage() == Stage::kHandshake) {
    owner_->on_handshake_bytes(*this);
    return true;
  }
  if (stage() != Stage::kOpen ||
      owner_->read_turns().may_read(*this, loop_.now(), !unread_.empty())) {
    return false;
  }
  owner_->on_waiting();
  return true;
}

void ServerConnection::on_established() noexcept {
  if (transport_.ssl() != nullptr) {
    owner_->on_handshake_end(*this, true);
    peer_.tls = true;
    peer_.certificates_der = transport_.peer_certificates_der();
  }
  if (const auto& identify = owner_->params().identify) {
    peer_.identity = identify(peer_);
    if (peer_.identity != nullptr) {
      std::vector<std::string>().swap(peer_.certificates_der);
    }
  }
  if (!count_in()) {
    shut(Errc::kClosed);
    return;
  }
  if (place != nullptr && !exempt_) {
    owner_->read_turns().join(*this, payer());
  }
  established_at_ = loop_.now();
  check_in(pace());
  if (transport_.alpn_negotiated()) {
    choose(transport_.alpn_is("h2"));
  }
}

/// False: there is no room for it.
bool ServerConnection::count_in() {
  const ListenerParams& params = owner_->params();
  if (place == nullptr || !params.owner || peer_.identity == nullptr) {
    return true;
  }
  ConnectionOwner owner = params.owner(peer_);
  exempt_ = owner.exempt;
  if (owner.exempt) {
    params.book->exempt(*place);
  } else if (!owner.payer.empty()) {
    const ConnectionBook::Room room = params.book->identify(*place, owner.payer);
    crowded_ = room != ConnectionBook::Room::kThere;
    payer_ = std::move(owner.payer);
    return room != ConnectionBook::Room::kNone;
  }
  return true;
}

void ServerConnection::review() noexcept {
  const ListenerParams& params = owner_->params();
  if (stage() != Stage::kOpen || peer_.identity == nullptr || !params.review) {
    return;
  }
  PeerVerdict verdict = params.review(peer_.identity);
  if (verdict.identity == peer_.identity) {
    return;
  }
  peer_.identity = std::move(verdict.identity);
  if (!verdict.ended) {
    return;
  }
  ends_by_ = std::min(ends_by_, loop_.now() + params.ended_grace);
  check_in(pace());
  if (http2_) {  // HTTP/1.1 answers the next request with 401 first
    drain();
  }
}

void ServerConnection::choose(bool http2) noexcept {
  http::SessionLimits limits = owner_->params().limits;
  limits.send_date = true;
  http2_ = http2;
  http::Handler* const refuses = crowded_ ? owner_->params().crowded : nullptr;
  http::Handler& handler = refuses != nullptr ? *refuses : owner_->handler();
  set_session(http2 ? http::make_h2_server(handler, peer_, *this, limits)
                    : http::make_h1_server(handler, peer_, *this, limits));
  const auto& speaks_for_many = owner_->params().speaks_for_many;
  http::watch_abuse(*session_, owner_->counters().abuse, speaks_for_many && speaks_for_many(peer_));
}

void ServerConnection::on_bytes(std::string_view bytes) noexcept {
  if (session_ == nullptr) {
    start_.append(bytes);
    const std::size_t known = std::min(start_.size(), kPreface.size());
    if (std::string_view(start_).substr(0, known) != kPreface.substr(0, known)) {
      choose(false);
    } else if (known == kPreface.size()) {
      choose(true);
    } else {
      head_since_ = head_since_ == TimePoint{} ? loop_.now() : head_since_;
      return;
    }
    head_since_ = TimePoint{};
    const std::string first = std::exchange(start_, {});
    on_bytes(first);
    return;
  }
  if (!unread_.empty()) {
    unread_.append(bytes);
    return;
  }
  if (const std::string_view rest = feed_in_turn(bytes); !rest.empty()) {
    unread_ = rest;
    owner_->on_waiting();
  }
}

/// Returns what is left for the payer's next turn: one read may hold hundreds of requests.
std::string_view ServerConnection::feed_in_turn(std::string_view bytes) noexcept {
  do {
    const std::string_view slice = bytes.substr(0, kSlice);
    bytes.remove_prefix(slice.size());
    const std::uint64_t before = session_->requests();
    feed(slice);
    ReadTurns::count(*this, session_->requests() - before, slice.size());
  } while (!bytes.empty() && stage() == Stage::kOpen &&
           owner_->read_turns().may_read(*this, loop_.now(), true));
  if (!session_->head_started()) {
    head_since_ = TimePoint{};
  } else if (head_since_ == TimePoint{}) {
    head_since_ = loop_.now();
  }
  return bytes;
}

void ServerConnection::go_on() noexcept {
  if (!unread_.empty() && stage() == Stage::kOpen) {
    const std::string mine = std::exchange(unread_, {});
    const std::string_view rest = feed_in_turn(mine);
    loop_.mark_dirty(*this);
    if (!rest.empty()) {
      unread_ = rest;
      return;
    }
  }
  read_now();  // what came meanwhile
}

void ServerConnection::on_last_bytes() noexcept {
  if (const std::string last = std::exchange(unread_, {}); !last.empty() && session_ != nullptr) {
    feed(last);
  }
}

void ServerConnection::check_in(Duration delay) {
  if (ends_by_ != TimePoint::max()) {
    delay = std::min(delay, ends_by_ - loop_.now());
  }
  timer_.start(std::max<Duration>(delay, milliseconds(1)), [this] { check_deadlines(); });
}

Duration ServerConnection::pace() const noexcept {
  const ListenerParams& params = owner_->params();
  return std::min({params.idle_timeout, params.header_timeout, params.first_request_timeout,
                   params.progress_timeout / 2});
}

void ServerConnection::no_request_in_time() noexcept {
  ++owner_->counters().no_request;
  shut(Errc::kDeadline);
}

// Deadlines are looked at now and then instead of arming a timer per request.
void ServerConnection::check_deadlines() noexcept {
  const ListenerParams& params = owner_->params();
  const TimePoint now = loop_.now();
  if (now >= ends_by_) {
    shut(Errc::kDeadline);
    return;
  }
  if (head_since_ != TimePoint{}) {
    if (now - head_since_ >= params.header_timeout) {
      if (session_ == nullptr) {
        no_request_in_time();
        return;
      }
      head_since_ = TimePoint{};
      ++owner_->counters().no_request;
      session_->on_head_timeout();
      loop_.mark_dirty(*this);
      check_in(pace());
      return;
    }
    check_in(std::min(pace(), head_since_ + params.header_timeout - now));
    return;
  }
  if (stream_count() != 0) {
    last_read_ = now;  // idle begins when the last stream has ended
    const std::size_t reset = session_->reset_stalled(now, params.progress_timeout);
    if (reset != 0) {
      owner_->counters().slow_readers += reset;
      loop_.mark_dirty(*this);
    }
    check_in(pace());
    return;
  }
  const bool asked = session_ != nullptr && session_->requests() != 0;
  if (!asked && now - established_at_ >= params.first_request_timeout) {
    no_request_in_time();
    return;
  }
  const Duration idle = now - last_read_;
  if (idle >= params.idle_timeout) {
    drain();
    if (stage() == Stage::kOpen) {
      timer_.start(params.header_timeout, [this] { shut(Errc::kClosed); });
    }
    return;
  }
  check_in(std::min(pace(), params.idle_timeout - idle));
}

void ServerConnection::on_dead(Errc cause, bool handshake) noexcept {
  if (owner_ == nullptr) {
    return;
  }
  if (handshake) {
    owner_->on_handshake_end(*this, false);
  }
  if (cause == Errc::kProtocol) {
    owner_->on_protocol_error();
  }
  owner_->on_connection_end(*this);
}

}  // namespace kintsugi::net
