#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

/// Reads AMQP 1.0 values (part 1 of the standard) from bytes of a peer. Bounds: kMostDepth values
/// inside each other, kMostValues in all; no allocation before the bytes for it are there. After a
/// call that says no, the place is not known and nothing else may be read. Threads: one at a time.
/// Lifetime: the bytes outlive it.
class AmqpReader {
 public:
  static constexpr unsigned kMostDepth = 32;
  static constexpr std::size_t kMostValues = 1U << 18U;

  explicit AmqpReader(std::string_view bytes) noexcept : bytes_(bytes), end_(bytes.size()) {}

  [[nodiscard]] bool at_end() const noexcept { return at_ == end_; }
  [[nodiscard]] std::string_view rest() const noexcept { return bytes_.substr(at_, end_ - at_); }

  /// One value: maps are objects (members whose key is no text are left out, of equal keys the last
  /// one wins), lists and arrays arrays, symbols strings; of described ones the value; null for
  /// binaries, decimals, UUIDs, what is not UTF-8, infinite or no number.
  /// @returns false  malformed, too deep or too many.
  [[nodiscard]] bool read(krm::Json& out) { return value(out, 0); }
  /// One value of any kind, without a look inside of it.
  [[nodiscard]] bool skip() noexcept;
  /// One value, walked through. @returns false as read() does, but for kMostValues.
  [[nodiscard]] bool check() noexcept { return walk(0); }
  /// The number before a described value. False: the value is another one.
  [[nodiscard]] bool read_descriptor(std::uint64_t& number) noexcept;
  /// A string, symbol or binary. False: the value is another one.
  [[nodiscard]] bool read_text(std::string_view& text) noexcept;
  /// Enters a list; its values follow. False: the value is another one.
  [[nodiscard]] bool enter_list(std::uint32_t& count) noexcept;

 private:
  [[nodiscard]] bool take(std::size_t size, std::string_view& out) noexcept;
  [[nodiscard]] bool number(std::size_t width, std::uint64_t& out) noexcept;
  [[nodiscard]] bool code(std::uint8_t& out) noexcept;
  /// Size and count of a list, map or array; ends at `end`.
  [[nodiscard]] bool head(std::uint8_t code, std::size_t& end, std::uint32_t& count) noexcept;
  [[nodiscard]] bool value(krm::Json& out, unsigned depth);
  [[nodiscard]] bool payload(std::uint8_t code, krm::Json& out, unsigned depth);
  [[nodiscard]] bool atom(std::uint8_t code, krm::Json& out);
  [[nodiscard]] bool map(std::uint32_t count, krm::Json& out, unsigned depth);
  [[nodiscard]] bool walk(unsigned depth) noexcept;
  [[nodiscard]] bool walk_payload(std::uint8_t code, unsigned depth) noexcept;
  [[nodiscard]] bool skip_payload(std::uint8_t code) noexcept;

  std::string_view bytes_;
  std::size_t at_ = 0, end_;
  std::size_t values_ = 0;
};

// Appending values.
void append_amqp(std::string& out, bool value);
/// As int if it fits, else as long.
void append_amqp(std::string& out, std::int64_t value);
void append_amqp(std::string& out, std::string_view value);
void append_amqp(std::string& out, const std::vector<std::string>& list);
void append_amqp(std::string& out, const Attributes& map);
/// Up to 255 bytes.
void append_amqp_symbol(std::string& out, std::string_view value);
void append_amqp_binary(std::string& out, std::string_view value);
/// A list or map is between these two: `code` is 0xd0 or 0xd1. @returns what end wants.
[[nodiscard]] std::size_t begin_amqp(std::string& out, char code);
void end_amqp(std::string& out, std::size_t begun, std::uint32_t count);

/// A request as an AMQP message: properties reply-to and correlation-id (a string: MH-6),
/// application-properties, and the body as an AmqpValue. Replaces what `out` holds.
void encode_request(std::string& out, const ManagementRequest& request, std::string_view reply_to,
                    std::string_view correlation);

/// The parts of an answer that matter. Views into the message.
struct ReplyParts {
  std::string_view correlation;       ///< "" when there is none, or it is no string
  std::string_view properties, body;  ///< each one AMQP value; "" when absent
};
/// @returns nullopt  no AMQP message.
[[nodiscard]] std::optional<ReplyParts> split_reply(std::string_view message) noexcept;
/// A part that cannot be read, or is nested too deeply, is null.
[[nodiscard]] ManagementReply decode_reply(const ReplyParts& parts);

}  // namespace kintsugi::workers
