#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::workers {

/// Cuts the bytes of a peer into protocol headers and whole frames. Whole ones are views into what
/// came, only a rest is copied. Bound: one frame. Threads: one at a time.
class AmqpFrames {
 public:
  static constexpr std::size_t kHeader = 8;
  explicit AmqpFrames(std::size_t most) noexcept : most_(most) {}

  /// What came; every call of next() that gives nothing has to come before the next feed().
  void feed(std::string_view bytes);
  /// The next header or whole frame; valid until feed(). nullopt: not whole yet, or fault().
  [[nodiscard]] std::optional<std::string_view> next();
  /// A frame of a size that is none, or above the bound.
  [[nodiscard]] bool fault() const noexcept { return fault_; }
  /// The next is a protocol header, as at the start.
  void expect_header() noexcept { header_ = true; }

 private:
  const std::size_t most_;
  std::string held_;  // begins with a frame that is not whole
  std::string_view rest_;
  bool header_ = true, fault_ = false;
};

/// What a frame is about, in the layers' own numbers.
struct AmqpFrame {
  bool sasl = false;
  std::string_view body;
};
/// @returns nullopt  neither AMQP's nor SASL's, or its head is longer than itself.
[[nodiscard]] std::optional<AmqpFrame> parse_frame(std::string_view frame) noexcept;
/// Whether what the frame says (not what a transfer carries) nests no deeper than AmqpReader's
/// bound: Proton reads it without one, and no stack is deep enough for that.
[[nodiscard]] bool is_shallow(const AmqpFrame& frame) noexcept;

}  // namespace kintsugi::workers
