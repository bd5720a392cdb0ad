#include "store/etcd/wire/frames.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace kintsugi::store::etcd {
namespace {

constexpr std::uint64_t kLastCode = 16;
constexpr std::int64_t kMostDigits = 99'999'999;

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string decode_message(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

void put_frame(std::string& out, std::string_view message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  out += '\0';
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>((size >> shift) & 0xFFU);
  }
  out += message;
}

Expected<std::size_t> FrameReader::size_of(std::string_view header) {
  if (header[0] != '\0') {
    failed_ = true;
    return fail(Errc::kProtocol, "a compressed message");
  }
  std::size_t size = 0;
  for (std::size_t i = 1; i < kFrameHeader; ++i) {
    size = (size << 8U) | static_cast<std::uint8_t>(header[i]);
  }
  if (size > limit_) {
    failed_ = true;
    return fail(Errc::kRequestEntityTooLarge, "a message of " + std::to_string(size) + " bytes");
  }
  return size;
}

Expected<void> FrameReader::feed(std::string_view bytes, const Visitor& visit) {
  if (failed_) {
    return fail(Errc::kProtocol, "the body was given up");
  }
  while (true) {
    if (held_.empty() && bytes.size() >= kFrameHeader) {
      const auto size = size_of(bytes);
      if (!size) {
        return fail(size.error().clone());
      }
      if (bytes.size() - kFrameHeader >= *size) {
        visit(bytes.substr(kFrameHeader, *size));
        bytes.remove_prefix(kFrameHeader + *size);
        continue;
      }
    }
    if (held_.size() < kFrameHeader) {
      const std::size_t take = std::min(kFrameHeader - held_.size(), bytes.size());
      held_ += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (held_.size() < kFrameHeader) {
        return {};
      }
    }
    const auto size = size_of(held_);
    if (!size) {
      return fail(size.error().clone());
    }
    const std::size_t take = std::min(kFrameHeader + *size - held_.size(), bytes.size());
    held_ += bytes.substr(0, take);
    bytes.remove_prefix(take);
    if (held_.size() < kFrameHeader + *size) {
      return {};
    }
    visit(std::string_view(held_).substr(kFrameHeader));
    held_ = std::string();
  }
}

GrpcStatus parse_status(std::string_view code, std::string_view message) {
  const auto number = parse_decimal<std::uint64_t>(code);
  return {number && *number <= kLastCode ? static_cast<GrpcCode>(*number) : GrpcCode::kUnknown,
          decode_message(message)};
}

std::string timeout_text(std::int64_t milliseconds) {
  const std::int64_t least = std::max<std::int64_t>(milliseconds, 1);
  return least <= kMostDigits ? std::to_string(least) + "m"
                              : std::to_string(std::min(least / 1'000, kMostDigits)) + "S";
}

}  // namespace kintsugi::store::etcd
