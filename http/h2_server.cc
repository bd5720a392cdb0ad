#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/strings.h"
#include "http/internal/abuse_watched.h"
#include "http/internal/h2_callbacks.h"
#include "http/internal/h2_engine.h"
#include "http/session.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

constexpr std::size_t kMaxWaiting = 64 * 1024;  ///< [bytes] of heads

class H2Server;

class H2ServerStream final : public H2StreamOf<ResponseStream> {
 public:
  H2ServerStream(H2Engine& owner, H2Server& server) noexcept
      : H2StreamOf<ResponseStream>(owner), server_(server) {}
  void send_head(int status, const HeaderList& headers, bool end) noexcept override;
  [[nodiscard]] const PeerInfo& peer() const noexcept override;
  void close_connection_after() noexcept override;

  std::unique_ptr<RequestHandler> owned;

 private:
  H2Server& server_;
};

class H2Server final : public H2SessionOf<Session>, public AbuseWatched {
 public:
  H2Server(Handler& handler, const PeerInfo& peer, SessionHost& host, const SessionLimits& limits)
      : H2SessionOf<Session>(host, limits), handler_(handler), peer_(peer) {
    start(true);
  }
  ~H2Server() override { close_all(Errc::kClosed); }
  void set_abuse(AbuseCounters& counters, bool speaks_for_many) noexcept override {
    watch_.count_in(counters, speaks_for_many);
    if (speaks_for_many) {
      most_fields_ = kMaxFieldsOfMany;
      limits_.max_header_list *= kHeadsOfMany;
    }
  }

  void start_drain() noexcept override {
    if (draining_ || !alive()) {
      return;
    }
    draining_ = true;
    (void)nghttp2_submit_shutdown_notice(session_);
    changed();
  }
  [[nodiscard]] const PeerInfo& peer() const noexcept { return peer_; }
  [[nodiscard]] bool sends_date() const noexcept { return limits_.send_date; }
  [[nodiscard]] std::uint64_t requests() const noexcept override { return requests_; }
  [[nodiscard]] bool head_started() const noexcept override { return in_block_; }
  void on_head_timeout() noexcept override {
    if (alive()) {
      fail_connection(NGHTTP2_ENHANCE_YOUR_CALM);
      changed();
    }
  }

 protected:
  void on_block_begin() noexcept override {
    head_ = std::make_unique<RequestHead>();
    in_block_ = true;
  }
  void on_pseudo(std::string_view name, std::string_view value) noexcept override {
    if (oversized_ || head_ == nullptr) {
      return;
    }
    if (name == ":method") {
      head_->method = value;
    } else if (name == ":path") {
      head_->target = value;
    } else if (name == ":scheme") {
      head_->scheme = value;
    } else if (name == ":authority") {
      head_->authority = value;
    } else if (name == ":protocol") {
      head_->protocol = value;
    }
  }
  void on_block_end(std::int32_t id, H2Stream* stream, bool first, bool end) noexcept override {
    in_block_ = false;
    if (first) {
      if (head_ != nullptr) {
        open(id, end);
      }
      return;
    }
    if (requests_wait_) {
      serve_waiting();
    }
    if (stream == nullptr || stream->closed) {
      return;
    }
    if (oversized_) {
      stream->abort(Errc::kProtocol);
      return;
    }
    if (stream->handler != nullptr && !fields_.empty()) {
      stream->handler->on_trailers(fields_);
    }
    if (end) {
      deliver_end(*stream);
    }
  }
  void on_goaway_sent() noexcept override {
    // Streams that cross the notice on the wire are still served: the PING's answer says that the
    // peer has seen it.
    if (draining_ && !std::exchange(ping_sent_, true)) {
      (void)nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    }
  }
  void on_ping_ack() noexcept override {
    if (draining_ && !std::exchange(goaway_sent_, true)) {
      (void)nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                                  nghttp2_session_get_last_proc_stream_id(session_),
                                  NGHTTP2_NO_ERROR, nullptr, 0);
    }
  }
  void on_local_end(H2Stream& stream) noexcept override {
    // Clients (curl 7.88) lose an answer whose stream is reset while they still send the request:
    // a small rest of it is awaited.
    stream.lingers = !stream.remote_ended && !stream.tunnel;
    stream.stuck_since = TimePoint{};
  }
  [[nodiscard]] Errc cause_of(const H2Stream& stream, std::uint32_t code) const noexcept override {
    const bool complete = stream.local_ended && (code == NGHTTP2_NO_ERROR || stream.lingers);
    return complete ? Errc::kOk : Errc::kReset;
  }

 private:
  void open(std::int32_t id, bool end) noexcept {
    ++requests_;
    watch_.on_request(id);
    const std::string_view host = fields_.get("host");
    if (host.data() != nullptr && !head_->authority.empty() &&
        !equals_ignore_case(host, head_->authority)) {
      watch_.glitch(Abuse::kAuthority);
      (void)nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_PROTOCOL_ERROR);
      return;
    }
    auto* stream = new H2ServerStream(*this, *this);
    stream->id = id;
    stream->remote_ended = end;
    const std::string_view method = head_->method;
    stream->no_body = method == "HEAD";
    stream->tunnel = method == "CONNECT";
    link(*stream);
    (void)nghttp2_session_set_stream_user_data(session_, id, static_cast<H2Stream*>(stream));
    if (oversized_) {
      refuse(*stream, 431, "request header fields are too large", Abuse::kHead);
      return;
    }
    if (method == "CONNECT" && head_->protocol.empty()) {
      refuse(*stream, 405, "CONNECT is not supported", Abuse::kAuthority);
      return;
    }
    if (head_->authority.empty()) {
      head_->authority = fields_.get("host");
    }
    if (!is_authority(head_->authority)) {
      refuse(*stream, 400, "malformed authority", Abuse::kAuthority);
      return;
    }
    fields_.remove("host");
    if (limits_.stream_window > 65'535) {
      (void)nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, id,
                                                  static_cast<std::int32_t>(limits_.stream_window));
    }
    head_->headers = fields_;  // copied to size; the scratch list keeps its room
    head_->version = 2;
    head_->end_stream = end && head_->protocol.empty();
    waiting_.push_back({stream, std::move(head_)});
    requests_wait_ = true;
    waiting_bytes_ += block_size_;
    if (waiting_bytes_ > kMaxWaiting) {
      serve_waiting();
    }
    if (fields_.list_size() > 4'096) {
      give_back(fields_);
    }
  }

  void serve_waiting() noexcept override {
    requests_wait_ = false;
    waiting_bytes_ = 0;
    for (Waiting& one : std::exchange(waiting_, {})) {
      if (!alive()) {
        return;
      }
      if (!one.stream->closed) {
        one.stream->owned = handler_.on_request(std::move(*one.head), *one.stream);
        one.stream->handler = one.stream->owned.get();
      }
    }
  }

  void refuse(H2ServerStream& stream, int status, std::string_view why, Abuse kind) noexcept {
    watch_.glitch(kind);
    const std::string body = status_body(status, why);
    HeaderList headers;
    headers.add("content-type", "application/json");
    headers.add("content-length", std::to_string(body.size()));
    stream.send_head(status, headers, false);
    stream.send_data(std::string_view(body), true);
  }

  struct Waiting {
    H2ServerStream* stream;
    std::unique_ptr<RequestHead> head;
  };

  Handler& handler_;
  const PeerInfo& peer_;
  std::unique_ptr<RequestHead> head_;  // of the block that is being received
  std::vector<Waiting> waiting_;       // empty but while bytes are received
  std::size_t waiting_bytes_ = 0;
  std::uint64_t requests_ = 0;
  bool in_block_ = false;
  bool draining_ = false;
  bool ping_sent_ = false;
  bool goaway_sent_ = false;
};

void H2ServerStream::send_head(int status, const HeaderList& headers, bool end) noexcept {
  if (closed || head_done) {
    return;
  }
  nghttp2_session* session = engine.native();
  if (session == nullptr) {
    return;
  }
  if (status == 101 && tunnel) {
    status = 200;
  }
  if (status < 200 || status > 999) {
    abort(Errc::kInternal);
    return;
  }
  head_done = true;
  if (status < 200 || status >= 300) {
    tunnel = false;
  }
  ended = ended || end;
  const bool bodiless = no_body || status == 204 || status == 304;
  if (bodiless) {
    ended = true;
    queue.clear();
    trailers.reset();
  }
  const char digits[3] = {static_cast<char>('0' + status / 100),
                          static_cast<char>('0' + status / 10 % 10),
                          static_cast<char>('0' + status % 10)};
  NameValues fields;
  fields.add_literal(":status", std::string_view(digits, sizeof digits));
  fields.add_fields(headers);
  if (server_.sends_date() && !headers.contains("date")) {
    fields.add_literal("date", http_date());
  }
  const nghttp2_data_provider provider = body_provider();
  const bool head_only = ended && queue.empty() && trailers == nullptr;
  if (nghttp2_submit_response(session, id, fields.data(), fields.size(),
                              head_only ? nullptr : &provider) != 0) {
    abort(Errc::kInternal);
    return;
  }
  engine.changed();
}

const PeerInfo& H2ServerStream::peer() const noexcept { return server_.peer(); }
void H2ServerStream::close_connection_after() noexcept { server_.start_drain(); }

}  // namespace

std::unique_ptr<Session> make_h2_server(Handler& handler, const PeerInfo& peer, SessionHost& host,
                                        const SessionLimits& limits) {
  return std::make_unique<H2Server>(handler, peer, host, limits);
}

}  // namespace kintsugi::http
