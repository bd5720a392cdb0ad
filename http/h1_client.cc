#include <memory>
#include <string>
#include <utility>

#include "base/strings.h"
#include "http/forwarding_client.h"
#include "http/internal/h1_engine.h"
#include "http/session.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

constexpr int kMaxHints = 16;  ///< 1xx heads before the final one (SE-135)

class H1Client final : public H1SessionOf<ClientSession, RequestStream> {
 public:
  H1Client(SessionHost& host, const SessionLimits& limits, ForwardingProxy proxy = {})
      : H1SessionOf(true, host, limits), proxy_(std::move(proxy)) {}
  ~H1Client() override { close_all(Errc::kClosed); }

  [[nodiscard]] Expected<RequestStream*> open(const RequestHead& head,
                                              ResponseHandler& handler) noexcept override;
  [[nodiscard]] std::size_t free_slots() const noexcept override {
    return draining() || exchange_ ? 0 : 1;
  }
  [[nodiscard]] std::size_t slot_limit() const noexcept override { return 1; }
  [[nodiscard]] bool draining() const noexcept override {
    return closing_ || broken_ || transport_closed_;
  }
  void ping() noexcept override {}
  void detach() noexcept override {
    handler_ = nullptr;
    abort(Errc::kCancelled);
  }

 protected:
  H1Result<void> on_head_text(std::string_view text) noexcept override;
  void on_fault(const H1Fault&) noexcept override {
    drop_output();
    finish(Errc::kProtocol);
  }
  void on_body_end() noexcept override {
    if (in_done_ && !out_done_) {  // the answer came before the request was complete
      closing_ = true;
      broken_ = true;
      drop_output();
      finish(Errc::kOk);
    }
  }
  void on_exchange_end() noexcept override {
    input_ = closing_ ? Input::kIgnore : Input::kHead;
    scanner_.reset();
  }

 private:
  void append_target(const RequestHead& head);

  const ForwardingProxy proxy_;  // without authority: none
  bool head_request_ = false;
  bool upgrade_ = false;
  int hints_ = 0;  // 1xx heads of this exchange so far
};

/// The request line, Host, and who we are to a proxy.
void H1Client::append_target(const RequestHead& head) {
  const bool forwarded = !proxy_.authority.empty();
  text_.append(head.method).append(" ");
  if (forwarded) {
    text_.append("http://").append(proxy_.authority);
  }
  if (!forwarded || head.target != "*") {
    text_.append(head.target);
  }
  text_.append(" HTTP/1.1\r\nhost: ");
  text_.append(forwarded ? proxy_.authority : head.authority).append("\r\n");
  if (!proxy_.authorization.empty()) {
    text_.append("proxy-authorization: ").append(proxy_.authorization.view()).append("\r\n");
  }
}

Expected<RequestStream*> H1Client::open(const RequestHead& head,
                                        ResponseHandler& handler) noexcept {
  if (draining()) {
    return fail(Errc::kNotProcessed, "the connection is going away");
  }
  if (exchange_) {
    return fail(Errc::kOverloaded, "an exchange is running");
  }
  if (const std::string_view fault = request_fault(head); !fault.empty()) {
    return fail(Errc::kBadRequest, std::string(fault));
  }
  begin_exchange(&handler);
  hints_ = 0;
  head_request_ = head.method == "HEAD";
  upgrade_ = !head.protocol.empty();
  input_ = Input::kHead;
  append_target(head);
  append_fields(head.headers, false);
  const auto length = parse_decimal<std::uint64_t>(head.headers.get("content-length"));
  if (upgrade_) {
    text_.append("connection: Upgrade\r\nupgrade: ").append(head.protocol).append("\r\n");
    hold_body_ = true;
  } else if (head.end_stream) {
    if (head.method == "POST" || head.method == "PUT" || head.method == "PATCH") {
      text_.append("content-length: 0\r\n");
    }
  } else if (length) {
    text_.append("content-length: ").append(std::to_string(*length)).append("\r\n");
    has_length_ = true;
    length_left_ = *length;
  } else {
    text_.append("transfer-encoding: chunked\r\n");
    chunked_ = true;
  }
  text_.append("\r\n");
  head_out_ = true;
  if (head.end_stream && !upgrade_) {
    out_ended_ = true;
  }
  changed();
  return this;
}

H1Result<void> H1Client::on_head_text(std::string_view text) noexcept {
  if (!exchange_) {
    return tl::unexpected<H1Fault>(H1Fault{400, "a response without request"});
  }
  auto parsed = parse_h1_response(text, limits_, head_request_, upgrade_);
  if (!parsed) {
    return tl::unexpected<H1Fault>(parsed.error());
  }
  ResponseHead& head = parsed->head;
  if (head.status < 200 && head.status != 101) {
    if (++hints_ > kMaxHints) {
      return tl::unexpected<H1Fault>(H1Fault{400, "too many interim answers"});
    }
    return {};
  }
  auto* listener = static_cast<ResponseHandler*>(finishing() ? nullptr : handler_);
  closing_ = closing_ || !parsed->keep_alive;
  if (head.status == 101) {
    start_tunnel();
    if (listener != nullptr) {
      listener->on_head(std::move(head), false);
    }
    changed();
    return {};
  }
  if (upgrade_) {
    hold_body_ = false;  // refused: what was meant for the tunnel is dropped
    body_dropped_ = true;
    drop_output();
    out_ended_ = true;
    out_done_ = true;
  }
  reader_.start(parsed->framing, limits_);
  const bool end = reader_.done();
  input_ = end ? Input::kWait : Input::kBody;
  in_done_ = end;
  if (listener != nullptr) {
    listener->on_head(std::move(head), end);
  }
  if (end) {
    on_body_end();
  }
  return {};
}

}  // namespace

std::unique_ptr<ClientSession> make_h1_client(SessionHost& host, const SessionLimits& limits) {
  return std::make_unique<H1Client>(host, limits);
}

std::unique_ptr<ClientSession> make_forwarding_client(SessionHost& host,
                                                      const SessionLimits& limits,
                                                      ForwardingProxy proxy) {
  return std::make_unique<H1Client>(host, limits, std::move(proxy));
}

}  // namespace kintsugi::http
