#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// The wire format of protocol buffers, as much of it as Kubernetes' types use.
namespace kintsugi::krm {

/// SchemaProperty::proto of a field inside messages that JSON shows inline holds the numbers of all
/// levels, the outermost in the lowest bits.
inline constexpr unsigned kInlineBits = 6;
inline constexpr unsigned kMaxInlineField = (1U << kInlineBits) - 1;

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message. `number` holds varints and fixed numbers, `bytes` the rest.
struct WireField {
  std::uint32_t field = 0;
  WireType type = WireType::kVarint;
  std::uint64_t number = 0;
  std::string_view bytes;
};

/// Reads a message field by field. Views into the bytes. Groups (types 3 and 4) are malformed.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) noexcept : rest_(bytes) {}
  /// False at the end and when malformed.
  [[nodiscard]] bool next(WireField& out) noexcept;
  [[nodiscard]] bool malformed() const noexcept { return malformed_; }
  /// One bare varint, for packed lists. False at the end and when malformed.
  [[nodiscard]] bool next_varint(std::uint64_t& out) noexcept;
  /// One bare little-endian number of 8 bytes.
  [[nodiscard]] bool next_fixed64(std::uint64_t& out) noexcept;
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

 private:
  bool bad() noexcept {
    malformed_ = true;
    return false;
  }
  std::string_view rest_;
  bool malformed_ = false;
};

void put_varint(std::string& out, std::uint64_t value);
void put_number(std::string& out, std::uint32_t field, std::uint64_t value);
void put_fixed64(std::string& out, std::uint32_t field, std::uint64_t value);
void put_double(std::string& out, std::uint32_t field, double value);
void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes);

}  // namespace kintsugi::krm
