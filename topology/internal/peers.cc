#include "topology/internal/peers.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"

namespace kintsugi::topology {
namespace {

/// So that several that swallow everything fit into the time before other ways are gone.
constexpr Duration kGiveUp = milliseconds(1'500);

}  // namespace

/// One request, until a peer has answered it completely.
class Peers::Attempts final : public http::RequestStream, public http::ResponseHandler {
 public:
  Attempts(Peers& peers, net::UpstreamClass kind, http::RequestHead head,
           http::ResponseHandler& handler)
      : peers_(peers),
        kind_(kind),
        head_(std::move(head)),
        handler_(&handler),
        order_(peers.next_order()),
        again_(peers.loop_) {
    if (!head_.end_stream) {
      order_.resize(1);
    }
    open();
  }
  ~Attempts() override {
    if (stream_ != nullptr) {
      stream_->detach();
    }
  }
  /// The peers go.
  void end() noexcept { finish(Errc::kCancelled); }

  // The caller's side.
  void send_data(std::string_view bytes, bool end) noexcept override {
    if (stream_ != nullptr) {
      stream_->send_data(bytes, end);
    }
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    if (stream_ != nullptr) {
      stream_->send_data(std::move(bytes), end);
    }
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    if (stream_ != nullptr) {
      stream_->send_trailers(trailers);
    }
  }
  void reset(Errc cause) noexcept override {
    given_up_ = true;
    if (stream_ != nullptr) {
      stream_->reset(cause);
    } else {
      again_.start(Duration::zero(), [this, cause] { finish(cause); });
    }
  }
  void consume(std::size_t bytes) noexcept override {
    if (stream_ != nullptr) {
      stream_->consume(bytes);
    }
  }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return stream_ != nullptr ? stream_->unsent_bytes() : 0;
  }
  /// Whoever gives up waiting for a head has waited long enough for it.
  void detach() noexcept override {
    handler_ = nullptr;
    if (stream_ != nullptr && !answered_) {
      note_failure();
    }
    finish(Errc::kCancelled);
  }

  // The peer's side.
  void on_head(http::ResponseHead head, bool end) noexcept override {
    answered_ = true;
    peer().failed = false;
    peers_.failures_ = 0;
    const int status = head.status;
    handler_->on_head(std::move(head), end);
    guarded("peer is heard", [&] { peers_.tell(status); });
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    if (handler_ != nullptr) {
      handler_->on_data(bytes, end);
    }
  }
  void on_trailers(http::HeaderList trailers) noexcept override {
    if (handler_ != nullptr) {
      handler_->on_trailers(std::move(trailers));
    }
  }
  void on_drained() noexcept override {
    if (handler_ != nullptr) {
      handler_->on_drained();
    }
  }
  void on_close(Errc cause) noexcept override {
    stream_ = nullptr;
    if (answered_ || given_up_ || cause == Errc::kCancelled) {
      finish(cause);
      return;
    }
    note_failure();
    if (++at_ < order_.size()) {
      again_.start(Duration::zero(), [this] { open(); });
      return;
    }
    ++peers_.failures_;
    Peers& peers = peers_;
    finish(cause);
    peers.tell(0);
  }

 private:
  [[nodiscard]] Peer& peer() { return peers_.peers_[order_[at_]]; }
  void open() { stream_ = &peer().upstream->open(kind_, head_, *this); }
  void note_failure() {
    peer().failed = true;
    peer().failed_at = peers_.loop_.now();
    peers_.last_failed_ = order_[at_];
  }

  /// This may be inside of one of its callbacks, so it goes at the end of the turn.
  void finish(Errc cause) {
    again_.cancel();
    if (http::RequestStream* stream = std::exchange(stream_, nullptr)) {
      stream->detach();
    }
    auto& running = peers_.running_;
    const auto own = std::find_if(running.begin(), running.end(),
                                  [this](const auto& one) { return one.get() == this; });
    if (own != running.end()) {
      peers_.loop_.defer([dead = std::shared_ptr<Attempts>(std::move(*own))] {});
      running.erase(own);
    }
    if (http::ResponseHandler* handler = std::exchange(handler_, nullptr)) {
      handler->on_close(cause);
    }
  }

  Peers& peers_;
  const net::UpstreamClass kind_;
  const http::RequestHead head_;
  http::ResponseHandler* handler_;  // null once it is not to be called any more
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;  // of order_
  http::RequestStream* stream_ = nullptr;
  net::Timer again_;
  bool answered_ = false, given_up_ = false;
};

Peers::Peers(net::Loop& loop, Params params) : loop_(loop), params_(std::move(params)) {
  for (net::UpstreamParams server : params_.servers) {
    for (Duration* limit : {&server.connect_timeout, &server.tls_timeout, &server.queue_timeout}) {
      *limit = std::min(*limit, kGiveUp);
    }
    peers_.push_back({net::Upstream::make(loop, std::move(server))});
  }
}

Peers::~Peers() {
  params_.on_answer = nullptr;
  while (!running_.empty()) {
    running_.back()->end();
  }
}

std::vector<std::size_t> Peers::next_order() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    order.push_back((next_ + i) % peers_.size());
  }
  next_ = (next_ + 1) % peers_.size();
  const TimePoint now = loop_.now();
  std::stable_partition(order.begin(), order.end(), [&](std::size_t index) {
    const Peer& peer = peers_[index];
    return !peer.failed || now - peer.failed_at >= params_.pause;
  });
  return order;
}

http::RequestStream& Peers::open(net::UpstreamClass kind, const http::RequestHead& head,
                                 http::ResponseHandler& handler) {
  return *running_.emplace_back(std::make_unique<Attempts>(*this, kind, head, handler));
}

void Peers::tell(int status) {
  if (params_.on_answer) {
    params_.on_answer(status);
  }
}

net::UpstreamStats Peers::stats(net::UpstreamClass kind) const noexcept {
  net::UpstreamStats sum;
  for (const Peer& peer : peers_) {
    const net::UpstreamStats one = peer.upstream->stats(kind);
    sum.connections += one.connections;
    sum.connecting += one.connecting;
    sum.streams += one.streams;
    sum.queued += one.queued;
    sum.opened += one.opened;
    sum.failed += one.failed;
    sum.requests += one.requests;
  }
  return sum;
}

const net::UpstreamParams& Peers::params() const noexcept {
  return peers_.front().upstream->params();
}

Duration Peers::round_trip() const noexcept {
  Duration longest{};
  for (const Peer& peer : peers_) {
    longest = std::max(longest, peer.upstream->round_trip());
  }
  return longest;
}

void Peers::set_tls(std::shared_ptr<net::TlsContext> tls) noexcept {
  for (const Peer& peer : peers_) {
    peer.upstream->set_tls(tls);
  }
}

void Peers::set_tls_of_each(const std::vector<std::shared_ptr<net::TlsContext>>& tls) noexcept {
  for (std::size_t i = 0; i < std::min(tls.size(), peers_.size()); ++i) {
    peers_[i].upstream->set_tls(tls[i]);
  }
}

void Peers::retry_now() noexcept {
  for (const Peer& peer : peers_) {
    peer.upstream->retry_now();
  }
}

std::uint32_t Peers::failures_in_a_row() const noexcept { return failures_; }

const std::string& Peers::last_failure() const noexcept {
  return peers_[last_failed_].upstream->last_failure();
}

}  // namespace kintsugi::topology
