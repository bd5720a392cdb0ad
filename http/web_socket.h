#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"

/// The server's side of WebSockets (RFC 6455) over an HTTP/1.1 upgrade: handshake and frames,
/// without I/O. Nothing here knows what is said over them. Threads: one at a time.
namespace kintsugi::http {

enum class WebSocketOpcode : std::uint8_t {
  kContinuation = 0,
  kText = 1,
  kBinary = 2,
  kClose = 8,
  kPing = 9,
  kPong = 10
};

inline constexpr std::uint16_t kWebSocketNormal = 1000;         ///< close code: the end
inline constexpr std::uint16_t kWebSocketProtocolError = 1002;  ///< close code: malformed frames
inline constexpr std::uint16_t kWebSocketPolicy = 1008;  ///< close code: not allowed (any more)
inline constexpr std::uint16_t kWebSocketTooBig = 1009;  ///< close code: a frame above the limit

/// A GET that asks for a WebSocket; its handshake may still be wrong.
[[nodiscard]] bool asks_for_web_socket(const RequestHead& head) noexcept;
/// Sec-WebSocket-Accept for the request's key (RFC 6455 4.2.2).
/// @error kBadRequest  no version 13, or no key of 16 bytes.
[[nodiscard]] Expected<std::string> web_socket_accept(const RequestHead& head);

/// One whole frame of a server. Control frames carry at most 125 bytes.
[[nodiscard]] std::string web_socket_frame(WebSocketOpcode opcode, std::string_view payload);
/// A close frame with that code.
[[nodiscard]] std::string web_socket_close(std::uint16_t code);

/// Reads a client's frames, for a server that has nothing to hear: messages are checked and
/// dropped, control frames are told. Memory: one control frame.
class WebSocketReader {
 public:
  static constexpr std::uint64_t kMaxFrame = 64 * 1024;   ///< [bytes] of payload
  static constexpr std::size_t kMaxFragments = 1'024;     ///< of one message
  static constexpr std::int64_t kControlsPerSecond = 10;  ///< and so many at once
  /// A whole ping, pong or close with its unmasked payload; nothing comes after a close.
  using OnControl = std::function<void(WebSocketOpcode opcode, std::string_view payload)>;

  /// Takes the next bytes, cut anywhere. @returns 0, or the close code for what is wrong; then, and
  /// after a close, all further bytes are dropped.
  [[nodiscard]] std::uint16_t feed(std::string_view bytes, TimePoint now,
                                   const OnControl& on_control);

 private:
  [[nodiscard]] std::size_t head_size() const noexcept;
  [[nodiscard]] bool is_control() const noexcept { return (head_[0] & 0x08U) != 0; }
  [[nodiscard]] bool starts_well() const noexcept;
  [[nodiscard]] std::uint16_t read_length() noexcept;
  [[nodiscard]] std::uint16_t finish(TimePoint now, const OnControl& on_control);

  std::array<unsigned char, 14> head_{};
  std::size_t have_ = 0;        ///< bytes of the frame's head
  std::uint64_t length_ = 0;    ///< payload bytes of the frame
  std::uint64_t read_ = 0;      ///< of them
  std::string control_;         ///< payload of a control frame
  bool in_message_ = false;     ///< a fragmented message is open
  std::size_t fragments_ = 0;   ///< of it
  TimePoint controls_until_{};  ///< by then all control frames so far would have been in time
  bool done_ = false;
};

/// What to answer to a close frame: its code, 1002 for one that no peer may send, no code for none.
[[nodiscard]] std::string web_socket_close_answer(std::string_view payload);

}  // namespace kintsugi::http
