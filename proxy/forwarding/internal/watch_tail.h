#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/headers.h"

namespace kintsugi::proxy {

/// Follows the bytes of a forwarded event stream just enough to end it in order: where an event
/// ends, and what the last one was about. Cost: a look for the last
/// newline per piece of bytes; with bookmarks also a walk through the last event up to its
/// metadata.resourceVersion. Threads: any.
class WatchTail {
 public:
  enum class Form : std::uint8_t {
    kJsonLines,        ///< one event per line
    kLengthDelimited,  ///< protobuf: four bytes of length, big endian, then the event
    kOpaque,           ///< unknown or compressed: may end anywhere
    kWebSocket,        ///< frames of a server (RFC 6455)
  };
  [[nodiscard]] static Form form_of(const http::HeaderList& response_headers) noexcept;
  /// Whether the client asks for them.
  [[nodiscard]] static bool allows_bookmarks(std::string_view target);

  /// @param bookmarks the client allows them.
  WatchTail(Form form, bool bookmarks) noexcept
      : form_(form), bookmarks_(bookmarks && form == Form::kJsonLines) {}

  /// Bytes of the body in their order.
  void feed(std::string_view bytes);
  /// No event is incomplete.
  [[nodiscard]] bool at_boundary() const noexcept;
  /// Length of the shortest prefix of the next `bytes` after which no event is incomplete; npos:
  /// the event that runs goes beyond them.
  [[nodiscard]] std::size_t first_boundary(std::string_view bytes) const noexcept;
  /// What is said last. A BOOKMARK event with kind and resourceVersion of the last complete event;
  /// "" when the client allows none, nothing was seen, or the last event did not show a
  /// resourceVersion. Of a WebSocket: that it is closed by policy (1008).
  [[nodiscard]] std::string last_words() const;

 private:
  /// Frames: how far the current one is.
  struct Frame {
    std::uint64_t size = 0;   ///< of the payload, as far as the head has told
    std::uint64_t left = 0;   ///< of the payload
    std::uint8_t header = 0;  ///< bytes of the head seen
    std::uint8_t whole = 0;   ///< bytes of the head of a WebSocket's frame
    [[nodiscard]] bool idle() const noexcept { return header == 0 && left == 0; }
    /// Takes at most one step; returns how many bytes it used.
    [[nodiscard]] std::size_t step(Form form, std::string_view bytes) noexcept;
    void begin() noexcept;
    void read_socket_head(unsigned char byte) noexcept;
  };
  [[nodiscard]] std::string bookmark() const;
  void feed_lines(std::string_view bytes);
  void scan(std::string_view event, std::string& version);

  Form form_;
  bool bookmarks_;
  bool fresh_ = true;  // the next byte begins an event
  Frame frame_;
  std::string version_;  // of the last complete event
  std::string begun_;    // of the incomplete one, if it was in the same piece as its beginning
  std::string kind_, api_version_;
};

}  // namespace kintsugi::proxy
