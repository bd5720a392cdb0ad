#include "http/web_socket.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::http {
namespace {

constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::size_t kMaxControl = 125;
constexpr unsigned kFinal = 0x80;
constexpr unsigned kReserved = 0x70;
constexpr unsigned kMasked = 0x80;

std::uint16_t code_of(std::string_view payload) noexcept {
  const auto high = static_cast<unsigned char>(payload[0]);
  const auto low = static_cast<unsigned char>(payload[1]);
  return static_cast<std::uint16_t>(high << 8U | low);
}

/// RFC 6455 7.4: what may stand in a frame.
bool is_sendable(std::uint16_t code) noexcept {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

}  // namespace

bool asks_for_web_socket(const RequestHead& head) noexcept {
  return head.version == 1 && head.method == "GET" &&
         equals_ignore_case(head.protocol, "websocket");
}

Expected<std::string> web_socket_accept(const RequestHead& head) {
  if (trim(head.headers.get("sec-websocket-version")) != "13") {
    return fail(Errc::kBadRequest, "missing or bad WebSocket Version");
  }
  const std::string_view key = trim(head.headers.get("sec-websocket-key"));
  const std::optional<std::string> raw = base64_decode(key);
  if (!raw || raw->size() != 16) {
    return fail(Errc::kBadRequest, "mismatch challenge/response");
  }
  const auto digest = sha1(std::string(key).append(kGuid));
  return base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string web_socket_frame(WebSocketOpcode opcode, std::string_view payload) {
  std::string frame;
  frame.reserve(payload.size() + 10);
  frame += static_cast<char>(kFinal | static_cast<unsigned>(opcode));
  const std::uint64_t size = payload.size();
  unsigned extra = 0;  // bytes of an extended length
  if (size <= kMaxControl) {
    frame += static_cast<char>(size);
  } else if (size <= 0xffff) {
    frame += static_cast<char>(126);
    extra = 2;
  } else {
    frame += static_cast<char>(127);
    extra = 8;
  }
  while (extra > 0) {
    --extra;
    frame += static_cast<char>(size >> (8 * extra) & 0xffU);
  }
  return frame.append(payload);
}

std::string web_socket_close(std::uint16_t code) {
  const std::array<char, 2> payload{static_cast<char>(code >> 8U), static_cast<char>(code & 0xffU)};
  return web_socket_frame(WebSocketOpcode::kClose, {payload.data(), payload.size()});
}

std::string web_socket_close_answer(std::string_view payload) {
  if (payload.empty()) {
    return web_socket_frame(WebSocketOpcode::kClose, {});
  }
  const bool good = payload.size() >= 2 && is_sendable(code_of(payload));
  return web_socket_close(good ? code_of(payload) : kWebSocketProtocolError);
}

std::size_t WebSocketReader::head_size() const noexcept {
  if (have_ < 2) {
    return 2;
  }
  const unsigned length = head_[1] & 0x7fU;
  const std::size_t extended = length == 126 ? 2 : length == 127 ? 8 : 0;
  return 2 + extended + 4;
}

bool WebSocketReader::starts_well() const noexcept {
  const unsigned opcode = head_[0] & 0x0fU;
  const bool final = (head_[0] & kFinal) != 0;
  if ((head_[0] & kReserved) != 0 || (head_[1] & kMasked) == 0) {
    return false;
  }
  if (is_control()) {
    return final && opcode <= static_cast<unsigned>(WebSocketOpcode::kPong) &&
           (head_[1] & 0x7fU) <= kMaxControl;
  }
  const bool continues = opcode == static_cast<unsigned>(WebSocketOpcode::kContinuation);
  return opcode <= static_cast<unsigned>(WebSocketOpcode::kBinary) && continues == in_message_;
}

std::uint16_t WebSocketReader::read_length() noexcept {
  length_ = head_[1] & 0x7fU;
  const std::size_t extended = have_ - 6;
  if (extended == 0) {
    return 0;
  }
  length_ = 0;
  for (std::size_t i = 0; i < extended; ++i) {
    length_ = length_ << 8U | head_[2 + i];
  }
  const bool shortest = extended == 2 ? length_ > kMaxControl : length_ > 0xffff;
  if (!shortest || length_ >> 63U != 0) {
    return kWebSocketProtocolError;
  }
  return length_ > kMaxFrame ? kWebSocketTooBig : std::uint16_t{0};
}

std::uint16_t WebSocketReader::finish(TimePoint now, const OnControl& on_control) {
  const auto opcode = static_cast<WebSocketOpcode>(head_[0] & 0x0fU);
  have_ = 0;
  read_ = 0;
  if (!is_control()) {
    in_message_ = (head_[0] & kFinal) == 0;
    fragments_ = in_message_ ? fragments_ + 1 : 0;
    return fragments_ > kMaxFragments ? kWebSocketPolicy : std::uint16_t{0};
  }
  constexpr Duration kEach = std::chrono::duration_cast<Duration>(seconds(1)) / kControlsPerSecond;
  controls_until_ = std::max(controls_until_, now) + kEach;
  if (controls_until_ - now > seconds(1)) {
    return kWebSocketPolicy;
  }
  const std::string payload = std::exchange(control_, std::string());
  if (opcode == WebSocketOpcode::kClose) {
    done_ = true;
    if (payload.size() == 1) {
      return kWebSocketProtocolError;
    }
  }
  on_control(opcode, payload);
  return 0;
}

std::uint16_t WebSocketReader::feed(std::string_view bytes, TimePoint now,
                                    const OnControl& on_control) {
  std::uint16_t fault = 0;
  while (!bytes.empty() && !done_) {
    if (have_ < head_size()) {
      head_[have_++] = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (have_ == 2 && !starts_well()) {
        fault = kWebSocketProtocolError;
      }
      if (fault == 0 && have_ == head_size()) {
        fault = read_length();
      }
    } else {
      const std::size_t size = std::min<std::uint64_t>(bytes.size(), length_ - read_);
      for (std::size_t i = 0; is_control() && i < size; ++i) {
        const unsigned char mask = head_[have_ - 4 + (read_ + i) % 4];
        control_ += static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ mask);
      }
      read_ += size;
      bytes.remove_prefix(size);
    }
    if (fault == 0 && have_ == head_size() && have_ > 2 && read_ == length_) {
      fault = finish(now, on_control);
    }
    if (fault != 0) {
      done_ = true;
      return fault;
    }
  }
  return 0;
}

}  // namespace kintsugi::http
