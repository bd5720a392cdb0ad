#include "workers/delivery/protocol/content_type.h"

#include <algorithm>
#include <array>

#include "http/gunzip.h"
#include "http/gzip.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMaxType = 64, kMaxVersion = 4, kMaxFormat = 32, kMaxCompression = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); }
bool is_format(char c) { return is_word(c) || c == '-' || c == '.'; }

bool is_part(std::string_view text, std::size_t most, bool (*is)(char)) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), is);
}

Expected<std::string> gunzip(std::string_view in, std::size_t most) {
  http::Gunzip machine;
  std::string out;
  std::array<char, 16'384> piece{};
  bool full = false;
  while (!in.empty() || full) {
    const http::Gunzip::Step step = machine.next(in, piece);
    if (!step.good) {
      return fail(Errc::kBadRequest, "the payload is not gzip");
    }
    if (out.size() + step.written > most) {
      return fail(Errc::kBadRequest,
                  "the payload unpacks to more than " + std::to_string(most) + " bytes");
    }
    in.remove_prefix(step.read);
    out.append(piece.data(), step.written);
    full = step.written == piece.size();
    if (step.read == 0 && step.written == 0) {
      break;
    }
  }
  if (!in.empty() || !machine.at_boundary()) {
    return fail(Errc::kBadRequest, "the payload is incomplete gzip");
  }
  return out;
}

}  // namespace

std::optional<DeliveryContentType> parse_delivery_content_type(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (text.size() > kMaxType || slash == std::string_view::npos || !text.starts_with('v') ||
      !is_part(text.substr(1, slash - 1), kMaxVersion, is_digit)) {
    return std::nullopt;
  }
  DeliveryContentType out;
  for (const char digit : text.substr(1, slash - 1)) {
    out.version = out.version * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  const std::size_t plus = text.find('+', slash);
  out.format = text.substr(slash + 1, plus == std::string_view::npos ? plus : plus - slash - 1);
  if (!is_part(out.format, kMaxFormat, is_format)) {
    return std::nullopt;
  }
  if (plus != std::string_view::npos) {
    out.compression = text.substr(plus + 1);
    if (!is_part(out.compression, kMaxCompression, is_word)) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<DeliveryCodec> delivery_codec(std::string_view content_type) {
  const auto type = parse_delivery_content_type(content_type);
  if (!type || type->version != 1 || type->format != "json") {
    return std::nullopt;
  }
  return type->compression.empty()     ? std::optional(DeliveryCodec::kJson)
         : type->compression == "gzip" ? std::optional(DeliveryCodec::kJsonGzip)
                                       : std::nullopt;
}

Expected<std::string> unpack(DeliveryCodec codec, std::string_view payload,
                             const UnpackBounds& bounds) {
  if (codec == DeliveryCodec::kJsonGzip) {
    return gunzip(payload, std::min(bounds.bytes, payload.size() * bounds.ratio));
  }
  if (payload.size() > bounds.bytes) {
    return fail(Errc::kBadRequest,
                "the payload has more than " + std::to_string(bounds.bytes) + " bytes");
  }
  return std::string(payload);
}

Expected<std::string> unpack(std::string_view content_type, std::string_view payload) {
  return unpack(delivery_codec(content_type).value_or(DeliveryCodec::kJson), payload, {});
}

std::string pack(DeliveryCodec codec, std::string_view json) {
  std::string out;
  if (codec == DeliveryCodec::kJsonGzip) {
    http::Gzip().write(json, true, out);
  } else {
    out = json;
  }
  return out;
}

}  // namespace kintsugi::workers
