#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace kintsugi::http {

/// Follows the heads of a client's frames beside nghttp2, which takes no notice of what comes on
/// streams that are over, nor of PRIORITY: RFC 9113, section 5.1 (SE-119 to SE-122). Cost: a few
/// tens of instructions per frame; nothing is kept of a stream but the memories below. Threads: the
/// owning loop.
class StreamOrder {
 public:
  /// What is wrong with a frame, and what the client is told.
  enum class Fault : std::uint8_t {
    kNone,          ///< nghttp2 knows what to do
    kLate,          ///< after our own reset, or so late that nobody remembers: discarded
    kClosedStream,  ///< reset STREAM_CLOSED
    kClosed,        ///< GOAWAY STREAM_CLOSED
    kStream,        ///< reset PROTOCOL_ERROR
    kConnection,    ///< GOAWAY PROTOCOL_ERROR
  };
  struct Look {
    std::int32_t stream;
    std::uint32_t length;  ///< of the frame's payload
    std::uint8_t type, flags;
  };

  /// @param skip  bytes before the first frame, as the preface
  explicit StreamOrder(std::size_t skip) noexcept : rest_(skip) {}

  /// Takes the next bytes of the connection. @returns how many nghttp2 is given before look() and
  /// judge() are asked: all of them when pending() says false. The rest comes again.
  [[nodiscard]] std::size_t scan(std::string_view bytes) noexcept;
  /// A frame of which nghttp2 has not yet seen the whole head is to be judged.
  [[nodiscard]] bool pending() const noexcept { return pending_; }
  [[nodiscard]] const Look& look() const noexcept { return look_; }
  /// @param open  nghttp2 still has the stream
  [[nodiscard]] Fault judge(bool open) noexcept;

  /// Streams that were begun since the last call.
  [[nodiscard]] std::uint32_t take_begun() noexcept { return std::exchange(begun_, 0); }
  /// Frames of types that nobody knows, since the last call.
  [[nodiscard]] std::uint32_t take_unknown() noexcept { return std::exchange(unknown_, 0); }
  /// nghttp2 does not know the stream any more.
  void on_closed(std::int32_t id) noexcept { sending_ = sending_ == id ? 0 : sending_; }
  /// The peer reset this stream, or both sides have ended it. The last 64 are remembered.
  void on_over(std::int32_t id, bool reset) noexcept;

 private:
  static constexpr std::size_t kType = 3, kHead = 9, kPriorityHead = kHead + 4;
  struct Skipped {
    std::int32_t first = 0, last = 0;  ///< 0: none
  };

  [[nodiscard]] std::size_t head_size() const noexcept;
  [[nodiscard]] std::size_t gather(const unsigned char* from, std::size_t count) noexcept;
  [[nodiscard]] bool suspicious(const unsigned char* head) noexcept;
  void begin(std::int32_t id, bool ends) noexcept;

  std::array<unsigned char, kPriorityHead> head_{};  // what came of one, cut in two
  std::uint8_t have_ = 0;
  bool pending_ = false;
  std::uint8_t next_over_ = 0, next_skipped_ = 0;
  std::uint32_t begun_ = 0, unknown_ = 0;
  std::size_t rest_;          // bytes until the next head
  std::int32_t highest_ = 0;  // stream
  std::int32_t sending_ = 0;  // the stream whose body comes, known to be open; 0: none
  Look look_{};
  std::array<std::uint32_t, 64> over_{};  // streams, twice their number; odd: reset
  std::array<Skipped, 16> skipped_{};     // numbers that were never used
};

}  // namespace kintsugi::http
