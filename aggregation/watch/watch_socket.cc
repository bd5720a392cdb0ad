#include "aggregation/watch/watch_socket.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "aggregation/bytes/json_split.h"
#include "auth/web_socket_token.h"
#include "base/guard.h"
#include "http/web_socket.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kLinger = seconds(2);  // for the client's close, after ours
constexpr int kMostLingers = 30;          // while it takes what is on its way

/// Between a watch and its client: what the watch sends goes out as frames.
class WatchSocket final : public http::RequestHandler, private http::ResponseStream {
 public:
  WatchSocket(net::Loop& loop, http::ResponseStream& stream, std::string accept,
              std::string subprotocol)
      : loop_(loop),
        down_(stream),
        accept_(std::move(accept)),
        subprotocol_(std::move(subprotocol)),
        events_(std::numeric_limits<std::size_t>::max()),  // our own, and no larger than its parts
        linger_(loop) {}

  void start(http::RequestHead head, const MakeWatch& make) {
    http::ResponseStream& self = *this;
    watch_ = make(std::move(head), self);
  }

  void on_data(std::string_view bytes, bool end) noexcept override {
    down_.consume(bytes.size());
    if (!guarded("frames of a watch's client", [&] { read(bytes, end); })) {
      down_.reset(Errc::kInternal);
    }
  }
  void on_drained() noexcept override {
    if (watch_ != nullptr) {
      watch_->on_drained();
    }
  }
  void on_close(Errc cause) noexcept override {
    state_ = State::kEnded;
    linger_.cancel();
    if (watch_ != nullptr) {
      watch_->on_close(cause);
    }
  }

 private:
  enum class State : std::uint8_t { kAsked, kRefused, kOpen, kEnded };

  void read(std::string_view bytes, bool end) {
    if (state_ == State::kEnded || state_ == State::kRefused) {
      return;
    }
    bool closed = end;
    const std::uint16_t fault = reader_.feed(
        bytes, loop_.now(), [&](http::WebSocketOpcode opcode, std::string_view payload) {
          closed = closed || opcode == http::WebSocketOpcode::kClose;
          if (state_ != State::kOpen) {
            return;  // nobody may speak before the answer
          }
          if (opcode == http::WebSocketOpcode::kPing) {
            put(http::web_socket_frame(http::WebSocketOpcode::kPong, payload));
          } else if (opcode == http::WebSocketOpcode::kClose) {
            put(http::web_socket_close_answer(payload));
          }
        });
    if (!closed && fault == 0) {
      return;
    }
    if (watch_ != nullptr) {
      watch_->on_close(Errc::kOk);
      watch_.reset();
    }
    if (state_ == State::kOpen) {
      end_with(fault);
    } else {
      state_ = State::kEnded;
      down_.reset(Errc::kProtocol);
    }
  }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    if (status != 200) {
      state_ = State::kRefused;
      down_.send_head(status, headers, end);
      return;
    }
    state_ = State::kOpen;
    http::HeaderList answer = headers;
    answer.remove("content-type");
    answer.add("upgrade", "websocket");
    answer.add("sec-websocket-accept", accept_);
    if (!subprotocol_.empty()) {
      answer.add("sec-websocket-protocol", subprotocol_);
    }
    down_.send_head(101, answer, false);
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    if (state_ == State::kRefused) {
      down_.send_data(bytes, end);
      return;
    }
    if (state_ != State::kOpen) {
      return;
    }
    std::string frames;
    const EventSplitter::Fault fault = events_.feed(bytes, [&frames](std::string_view event) {
      frames += http::web_socket_frame(http::WebSocketOpcode::kText, event);
    });
    if (!frames.empty()) {
      put(frames);
    }
    if (end || fault != EventSplitter::Fault::kNone) {
      end_with(http::kWebSocketNormal);
    }
  }
  void send_data(SharedBytes bytes, bool end) noexcept override { send_data(bytes.view(), end); }
  void send_trailers(const http::HeaderList&) noexcept override {
    end_with(http::kWebSocketNormal);
  }
  void reset(Errc cause) noexcept override { down_.reset(cause); }
  void consume(std::size_t) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override { return down_.unsent_bytes(); }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return down_.peer(); }
  void close_connection_after() noexcept override { down_.close_connection_after(); }

  void put(std::string_view frame) { down_.send_data(frame, false); }

  /// @param code  0: the close frame was sent
  void end_with(std::uint16_t code) {
    if (state_ == State::kEnded) {
      return;
    }
    state_ = State::kEnded;
    if (code != 0) {
      put(http::web_socket_close(code));
    }
    down_.send_data(std::string_view(), true);
    linger();
  }
  /// A client that never answers a close must not hold its connection for ever.
  void linger() {
    linger_.start(kLinger, [this] {
      if (down_.unsent_bytes() > 0 && ++lingers_ < kMostLingers) {
        linger();
      } else {
        down_.reset(Errc::kDeadline);
      }
    });
  }

  net::Loop& loop_;
  http::ResponseStream& down_;
  const std::string accept_, subprotocol_;
  EventSplitter events_;
  http::WebSocketReader reader_;
  net::Timer linger_;
  State state_ = State::kAsked;
  int lingers_ = 0;
  std::unique_ptr<http::RequestHandler> watch_;  // null: the client has gone
};

}  // namespace

std::unique_ptr<http::RequestHandler> answer_over_socket(net::Loop& loop, http::RequestHead head,
                                                         http::ResponseStream& stream,
                                                         const MakeWatch& make) {
  Expected<std::string> accept = http::web_socket_accept(head);
  if (!accept) {
    return serving::answer_error(head, stream, accept.error());
  }
  auto socket = std::make_unique<WatchSocket>(loop, stream, std::move(*accept),
                                              std::string(auth::chosen_subprotocol(head)));
  head.protocol.clear();
  head.end_stream = true;
  for (const std::string_view name :
       {"connection", "upgrade", "sec-websocket-key", "sec-websocket-version",
        "sec-websocket-protocol", "sec-websocket-extensions"}) {
    head.headers.remove(name);
  }
  socket->start(std::move(head), make);
  return socket;
}

}  // namespace kintsugi::aggregation
