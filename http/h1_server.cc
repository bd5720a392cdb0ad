#include <memory>
#include <string>
#include <utility>

#include "base/strings.h"
#include "http/internal/abuse_watched.h"
#include "http/internal/h1_engine.h"
#include "http/session.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

class H1Server final : public H1SessionOf<Session, ResponseStream>, public AbuseWatched {
 public:
  H1Server(Handler& handler, const PeerInfo& peer, SessionHost& host, const SessionLimits& limits)
      : H1SessionOf(false, host, limits), handler_factory_(handler), peer_(peer) {}
  ~H1Server() override { close_all(Errc::kClosed); }
  void set_abuse(AbuseCounters& counters, bool /*speaks_for_many*/) noexcept override {
    abuse_ = &counters;
  }

  void send_head(int status, const HeaderList& headers, bool end) noexcept override;
  [[nodiscard]] const PeerInfo& peer() const noexcept override { return peer_; }
  void close_connection_after() noexcept override {
    closing_ = true;
    changed();
  }
  [[nodiscard]] bool head_started() const noexcept override { return head_begun_; }
  [[nodiscard]] std::uint64_t requests() const noexcept override { return requests_; }
  void on_head_timeout() noexcept override {
    if (exchange_) {
      return;
    }
    if (head_begun_ && !broken_) {
      head_begun_ = false;
      refuse({408, "the request head did not arrive in time"});
      in_ = std::string();
      input_ = Input::kIgnore;
    }
    closing_ = true;
    changed();
  }

 protected:
  H1Result<void> on_head_text(std::string_view text) noexcept override;
  void on_fault(const H1Fault& fault) noexcept override {
    if (abuse_ != nullptr) {
      abuse_->add(fault.status == 431 ? Abuse::kHead : Abuse::kFraming);
    }
    if (exchange_) {
      const bool silent = !head_out_;
      drop_output();
      finish(Errc::kProtocol);
      if (silent) {
        refuse({400, fault.message});
      }
    } else if (input_ != Input::kDiscard) {
      refuse(fault);
    }
  }
  void on_body_end() noexcept override {
    if (in_done_ || !out_done_) {
      return;
    }
    // The answer is complete and the rest of the request is of no use.
    if (continue_owed_) {
      closing_ = true;  // the client may send the body or not
      input_ = Input::kIgnore;
    } else {
      input_ = Input::kDiscard;
    }
    in_done_ = true;
    finish(Errc::kOk);
  }
  void on_exchange_end() noexcept override {
    owned_.reset();
    protocol_ = std::string();
    if (input_ == Input::kWait) {
      input_ = Input::kHead;
    }
    if (closing_) {
      input_ = Input::kIgnore;
    }
  }

 private:
  /// Answers a request that never reached a handler and ends the connection.
  void refuse(const H1Fault& fault) noexcept {
    const std::string body = status_body(fault.status, fault.message);
    text_.append("HTTP/1.1 ").append(std::to_string(fault.status)) += ' ';
    text_.append(status_reason(fault.status))
        .append("\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ")
        .append(std::to_string(body.size()))
        .append("\r\n\r\n")
        .append(body);
    closing_ = true;
    broken_ = true;
  }
  void append_framing(int status, const HeaderList& headers, bool end) noexcept;

  Handler& handler_factory_;
  const PeerInfo& peer_;
  std::unique_ptr<RequestHandler> owned_;
  std::string protocol_;  // of the running request, for 101
  bool http10_ = false;
  bool head_request_ = false;
  std::uint64_t requests_ = 0;
  bool continue_owed_ = false;  // the client waits for 100
  AbuseCounters* abuse_ = nullptr;
};

H1Result<void> H1Server::on_head_text(std::string_view text) noexcept {
  auto parsed = parse_h1_request(text, limits_);
  if (!parsed) {
    return tl::unexpected<H1Fault>(parsed.error());
  }
  RequestHead& head = parsed->head;
  head.scheme = peer_.tls ? "https" : "http";
  http10_ = parsed->http10;
  head_request_ = head.method == "HEAD";
  protocol_ = head.protocol;
  continue_owed_ = parsed->expects_continue;
  closing_ = closing_ || !parsed->keep_alive;
  ++requests_;
  begin_exchange(nullptr);
  reader_.start(parsed->framing, limits_);
  const bool has_body = !reader_.done();
  in_done_ = !has_body && head.protocol.empty();
  input_ = has_body ? Input::kBody : Input::kWait;
  owned_ = handler_factory_.on_request(std::move(head), *this);
  handler_ = owned_.get();
  if (continue_owed_ && !head_out_ && input_ == Input::kBody) {
    continue_owed_ = false;
    text_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  return {};
}

void H1Server::append_framing(int status, const HeaderList& headers, bool end) noexcept {
  const auto length = parse_decimal<std::uint64_t>(headers.get("content-length"));
  if (head_request_ || status == 204 || status == 304) {
    body_dropped_ = true;
    out_ended_ = true;
    queue_.clear();
    if (length && status != 204) {
      text_.append("content-length: ").append(std::to_string(*length)).append("\r\n");
    }
    return;
  }
  if (length || end) {
    has_length_ = true;
    length_left_ = end ? 0 : *length;
    text_.append("content-length: ").append(std::to_string(length_left_)).append("\r\n");
    return;
  }
  if (http10_) {
    closing_ = true;
    return;
  }
  chunked_ = true;
  text_.append("transfer-encoding: chunked\r\n");
}

void H1Server::send_head(int status, const HeaderList& headers, bool end) noexcept {
  if (!exchange_ || head_out_ || broken_) {
    return;
  }
  const bool upgrade = status == 101;
  if (status > 999 || (status < 200 && !(upgrade && !protocol_.empty()))) {
    abort(Errc::kInternal);
    return;
  }
  head_out_ = true;
  text_.append("HTTP/1.1 ").append(std::to_string(status)) += ' ';
  text_.append(status_reason(status)).append("\r\n");
  append_fields(headers, false);
  if (limits_.send_date && !headers.contains("date")) {
    text_.append("date: ").append(http_date()).append("\r\n");
  }
  if (upgrade) {
    const std::string_view chosen = headers.get("upgrade");
    const bool usable = !chosen.empty() && is_field_value(chosen);
    text_.append("connection: Upgrade\r\nupgrade: ").append(usable ? chosen : protocol_);
    text_.append("\r\n");
    start_tunnel();
  } else {
    if (!protocol_.empty()) {
      in_done_ = true;  // no tunnel, and the request has no body
    }
    append_framing(status, headers, end);
    if (closing_) {
      text_.append("connection: close\r\n");
    }
  }
  text_.append("\r\n");
  if (!queue_.empty() && has_length_) {
    if (queue_.size() > length_left_) {
      abort(Errc::kInternal);
      return;
    }
    length_left_ -= queue_.size();
  }
  if (end || out_ended_) {
    end_body();
  }
  changed();
}

}  // namespace

std::unique_ptr<Session> make_h1_server(Handler& handler, const PeerInfo& peer, SessionHost& host,
                                        const SessionLimits& limits) {
  return std::make_unique<H1Server>(handler, peer, host, limits);
}

}  // namespace kintsugi::http
