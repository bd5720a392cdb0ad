#include <algorithm>
#include <memory>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "http/internal/h2_callbacks.h"
#include "http/internal/h2_engine.h"
#include "http/session.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

constexpr std::uint8_t kMaxHints = 16;  ///< 1xx heads before the final one (SE-135)

class H2ClientStream final : public H2StreamOf<RequestStream> {
 public:
  using H2StreamOf<RequestStream>::H2StreamOf;
  void detach() noexcept override {
    handler = nullptr;
    abort(Errc::kCancelled);
  }
  [[nodiscard]] ResponseHandler* listener() const noexcept {
    return static_cast<ResponseHandler*>(handler);
  }
};

class H2Client final : public H2SessionOf<ClientSession> {
 public:
  H2Client(SessionHost& host, const SessionLimits& limits)
      : H2SessionOf<ClientSession>(host, limits) {
    start(false);
  }
  ~H2Client() override { close_all(Errc::kClosed); }

  [[nodiscard]] Expected<RequestStream*> open(const RequestHead& head,
                                              ResponseHandler& handler) noexcept override {
    if (draining()) {
      return fail(Errc::kNotProcessed, "the connection is going away");
    }
    if (open_streams() >= slot_limit()) {
      return fail(Errc::kOverloaded, "all streams of the connection are in use");
    }
    if (const std::string_view fault = request_fault(head); !fault.empty()) {
      return fail(Errc::kBadRequest, std::string(fault));
    }
    if (!head.protocol.empty() && nghttp2_session_get_remote_settings(
                                      session_, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) != 1) {
      return fail(Errc::kNotProcessed, "the peer does not support extended CONNECT");
    }
    const std::string_view method = head.method;
    const bool tunnel = !head.protocol.empty() || method == "CONNECT";
    NameValues fields;
    fields.add_literal(":method", head.protocol.empty() ? method : "CONNECT");
    if (!head.protocol.empty()) {
      fields.add_literal(":protocol", head.protocol);
    }
    if (method != "CONNECT" || !head.protocol.empty()) {
      fields.add_literal(":scheme", head.scheme.empty() ? std::string_view("https") : head.scheme);
      fields.add_literal(":path", head.target);
    }
    if (!head.authority.empty()) {
      fields.add_literal(":authority", head.authority);
    }
    fields.add_fields(head.headers);
    auto stream = std::make_unique<H2ClientStream>(*this);
    const nghttp2_data_provider provider = body_provider();
    const bool head_only = head.end_stream && !tunnel;
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                                   head_only ? nullptr : &provider,
                                                   static_cast<H2Stream*>(stream.get()));
    if (id < 0) {
      if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) {
        goaway_seen_ = true;
        return fail(Errc::kNotProcessed, nghttp2_strerror(id));
      }
      return fail(Errc::kBadRequest, nghttp2_strerror(id));
    }
    stream->id = id;
    stream->handler = &handler;
    stream->ended = head_only;
    stream->tunnel = tunnel;
    H2ClientStream* opened = stream.release();
    link(*opened);
    changed();
    return opened;
  }

  [[nodiscard]] std::size_t slot_limit() const noexcept override {
    return std::min<std::size_t>(
        nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS),
        limits_.max_streams);
  }
  [[nodiscard]] std::size_t free_slots() const noexcept override {
    const std::size_t limit = draining() ? 0 : slot_limit();
    return limit > open_streams() ? limit - open_streams() : 0;
  }
  [[nodiscard]] bool draining() const noexcept override {
    return draining_ || goaway_seen_ || !alive();
  }
  void start_drain() noexcept override {
    if (draining_ || !alive()) {
      return;
    }
    draining_ = true;
    if (open_streams() == 0) {
      say_goodbye();
    }
  }
  void ping() noexcept override {
    if (alive()) {
      (void)nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
      changed();
    }
  }

 protected:
  void on_last_finished() noexcept override {
    if (draining_ && alive()) {
      say_goodbye();
    }
  }
  void on_block_begin() noexcept override { status_ = 0; }
  void on_pseudo(std::string_view name, std::string_view value) noexcept override {
    if (name == ":status") {
      status_ = parse_decimal<int>(value).value_or(0);
    }
  }
  void on_block_end(std::int32_t, H2Stream* found, bool, bool end) noexcept override {
    if (found == nullptr || found->closed || !alive()) {
      return;
    }
    auto& stream = static_cast<H2ClientStream&>(*found);
    const bool has_status = status_ >= 100;  // RFC 9110 15; nghttp2 takes 051 for a final one
    if (oversized_ || (!stream.head_done && !has_status)) {
      stream.abort(Errc::kProtocol);
      return;
    }
    if (stream.head_done) {
      if (stream.handler != nullptr && !fields_.empty()) {
        stream.handler->on_trailers(fields_);
      }
      if (end) {
        deliver_end(stream);
      }
      return;
    }
    if (status_ < 200) {
      if (++stream.hints > kMaxHints) {
        fail_connection(NGHTTP2_ENHANCE_YOUR_CALM);
      }
      return;
    }
    stream.head_done = true;
    stream.remote_ended = end;
    if (ResponseHandler* handler = stream.listener()) {
      handler->on_head({status_, fields_}, end);
    }
    if (fields_.list_size() > 4'096) {
      give_back(fields_);
    }
  }
  void on_goaway() noexcept override { goaway_seen_ = true; }
  /// A server that does so is asked on a new connection; other streams go on (SE-135).
  void on_broken_message() noexcept override { draining_ = true; }
  [[nodiscard]] Errc cause_of(const H2Stream& stream, std::uint32_t code) const noexcept override {
    if (code == NGHTTP2_NO_ERROR && stream.remote_ended) {
      return Errc::kOk;
    }
    return code == NGHTTP2_REFUSED_STREAM ? Errc::kNotProcessed : Errc::kReset;
  }

 private:
  int status_ = 0;
  /// Some servers refuse what comes behind a GOAWAY, and it would overtake requests that wait to be
  /// sent, so it is the last thing that is said.
  void say_goodbye() noexcept {
    (void)nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
    changed();
  }

  bool draining_ = false;
  bool goaway_seen_ = false;
};

}  // namespace

std::unique_ptr<ClientSession> make_h2_client(SessionHost& host, const SessionLimits& limits) {
  return std::make_unique<H2Client>(host, limits);
}

}  // namespace kintsugi::http
