#include "workers/messaging/amqp/internal/amqp_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

/// Bytes of a value of fixed width, by the upper half of its code.
constexpr std::size_t width_of(std::uint8_t code) noexcept {
  constexpr std::size_t kWidths[] = {0, 1, 2, 4, 8, 16};
  const unsigned kind = code >> 4U;
  return kind >= 4 && kind <= 9 ? kWidths[kind - 4] : 0;
}
constexpr bool is_fixed(std::uint8_t code) noexcept {
  const unsigned kind = code >> 4U;
  return kind >= 4 && kind <= 9;
}
constexpr bool is_variable(std::uint8_t code) noexcept {
  return (code >> 4U) == 0xa || (code >> 4U) == 0xb;
}
constexpr bool is_list_or_map(std::uint8_t code) noexcept {
  return code == 0xc0 || code == 0xd0 || code == 0xc1 || code == 0xd1;
}
constexpr bool is_array(std::uint8_t code) noexcept { return code == 0xe0 || code == 0xf0; }

std::int64_t signed_of(std::uint64_t bits, std::size_t width) noexcept {
  const unsigned shift = static_cast<unsigned>(64 - 8 * width);
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void append_number(std::string& out, std::uint64_t value, unsigned width) {
  for (unsigned i = width; i-- > 0;) {
    out += static_cast<char>(value >> (8 * i));
  }
}

void append_sized(std::string& out, char small, char large, std::string_view bytes) {
  if (bytes.size() <= 0xff) {
    out += small;
    out += static_cast<char>(bytes.size());
  } else {
    out += large;
    append_number(out, bytes.size(), 4);
  }
  out += bytes;
}

}  // namespace

bool AmqpReader::take(std::size_t size, std::string_view& out) noexcept {
  if (size > end_ - at_) {
    return false;
  }
  out = bytes_.substr(at_, size);
  at_ += size;
  return true;
}

bool AmqpReader::number(std::size_t width, std::uint64_t& out) noexcept {
  std::string_view bytes;
  if (!take(width, bytes)) {
    return false;
  }
  out = 0;
  for (const char byte : bytes) {
    out = out << 8U | static_cast<unsigned char>(byte);
  }
  return true;
}

bool AmqpReader::code(std::uint8_t& out) noexcept {
  std::uint64_t byte = 0;
  const bool ok = number(1, byte);
  out = static_cast<std::uint8_t>(byte);
  return ok;
}

bool AmqpReader::head(std::uint8_t code, std::size_t& end, std::uint32_t& count) noexcept {
  const std::size_t width = (code >> 4U) == 0xc || (code >> 4U) == 0xe ? 1 : 4;
  std::uint64_t size = 0;
  if (!number(width, size) || size > end_ - at_) {
    return false;
  }
  end = at_ + static_cast<std::size_t>(size);
  std::uint64_t values = 0;
  if (size < width || !number(width, values)) {
    return false;
  }
  count = static_cast<std::uint32_t>(values);
  return true;
}

bool AmqpReader::atom(std::uint8_t code, Json& out) {
  std::uint64_t bits = 0;
  std::string_view text;
  if (is_variable(code)) {
    const bool ok = number((code >> 4U) == 0xa ? 1 : 4, bits) && take(bits, text);
    if (ok && (code & 0xfU) != 0 && is_valid_utf8(text)) {
      out = Json(text);
    }
    return ok;
  }
  const std::size_t width = width_of(code);
  if (width == 16) {
    return (code == 0x94 || code == 0x98) && take(width, text);
  }
  if (!number(width, bits)) {
    return false;
  }
  switch (code) {
    case 0x40:  // null
    case 0x73:  // char
    case 0x74:  // decimals
    case 0x84:
      return true;
    case 0x41:
    case 0x42:
      out = Json(code == 0x41);
      return true;
    case 0x56:
      out = Json(bits != 0);
      return bits <= 1;
    case 0x45:
      out = Json::array();
      return true;
    case 0x43:  // unsigned ones
    case 0x44:
    case 0x50:
    case 0x52:
    case 0x53:
    case 0x60:
    case 0x70:
    case 0x80:
      out = bits <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                ? Json(static_cast<std::int64_t>(bits))
                : Json(bits);
      return true;
    case 0x51:  // signed ones; 0x83 is a timestamp in milliseconds
    case 0x54:
    case 0x55:
    case 0x61:
    case 0x71:
    case 0x81:
    case 0x83:
      out = Json(signed_of(bits, width));
      return true;
    case 0x72:
      out = finite(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
      return true;
    case 0x82:
      out = finite(std::bit_cast<double>(bits));
      return true;
    default:
      return false;
  }
}

bool AmqpReader::map(std::uint32_t count, Json& out, unsigned depth) {
  Json::Object& members = out.edit_members();
  bool sorted = true;
  for (std::uint32_t i = 0; i + 1 < count; i += 2) {
    Json key;
    Json is;
    if (!value(key, depth) || !value(is, depth)) {
      return false;
    }
    if (key.is_string()) {
      sorted = sorted && (members.empty() || members.back().key < key.as_string());
      members.push_back({std::string(key.as_string()), std::move(is)});
    }
  }
  if (!sorted) {
    std::stable_sort(members.begin(), members.end(),
                     [](const auto& a, const auto& b) { return a.key < b.key; });
    // Of equal ones the last: from behind, it is the first.
    const auto kept = std::unique(members.rbegin(), members.rend(),
                                  [](const auto& a, const auto& b) { return a.key == b.key; });
    members.erase(members.begin(), kept.base());
  }
  return count % 2 == 0;
}

bool AmqpReader::payload(std::uint8_t code, Json& out, unsigned depth) {
  if (++values_ > kMostValues) {
    return false;
  }
  if (is_fixed(code) || is_variable(code)) {
    return atom(code, out);
  }
  std::size_t end = 0;
  std::uint32_t count = 0;
  if (depth == kMostDepth || (!is_list_or_map(code) && !is_array(code)) ||
      !head(code, end, count)) {
    return false;
  }
  const std::size_t outer = std::exchange(end_, end);
  bool ok = true;
  if ((code & 0xfU) == 1) {
    ok = map(count, out, depth + 1);
  } else {
    Json::Array& items = out.edit_items();
    std::uint8_t each = 0;
    if (is_array(code)) {
      ok = this->code(each);
      for (unsigned described = 0; ok && each == 0; ++described) {
        ok = described < 2 && skip() && this->code(each);
      }
    }
    for (std::uint32_t i = 0; ok && i < count; ++i) {
      Json item;
      ok = is_array(code) ? payload(each, item, depth + 1) : value(item, depth + 1);
      items.push_back(std::move(item));
    }
  }
  ok = ok && at_ == end;
  end_ = outer;
  return ok;
}

bool AmqpReader::value(Json& out, unsigned depth) {
  std::uint8_t which = 0;
  if (!code(which)) {
    return false;
  }
  if (which != 0) {
    return payload(which, out, depth);
  }
  return depth < kMostDepth && walk(depth + 1) && value(out, depth + 1);
}

bool AmqpReader::skip_payload(std::uint8_t code) noexcept {
  std::string_view skipped;
  std::uint64_t size = 0;
  if (is_fixed(code)) {
    return take(width_of(code), skipped);
  }
  const bool known = is_variable(code) || is_list_or_map(code) || is_array(code);
  const unsigned kind = code >> 4U;
  const std::size_t width = kind == 0xa || kind == 0xc || kind == 0xe ? 1 : 4;
  return known && number(width, size) && take(size, skipped);
}

bool AmqpReader::skip() noexcept {
  std::uint8_t which = 0;
  for (unsigned described = 0; described < 4; ++described) {
    if (!code(which)) {
      return false;
    }
    if (which != 0) {
      return skip_payload(which);
    }
    if (!code(which) || which == 0 || !skip_payload(which)) {
      return false;  // a descriptor that is described itself is nobody's
    }
  }
  return false;
}

bool AmqpReader::walk_payload(std::uint8_t code, unsigned depth) noexcept {
  if (!is_list_or_map(code) && !is_array(code)) {
    return skip_payload(code);
  }
  std::size_t end = 0;
  std::uint32_t count = 0;
  if (depth == kMostDepth || !head(code, end, count)) {
    return false;
  }
  const std::size_t outer = std::exchange(end_, end);
  bool ok = true;
  std::uint8_t each = 0;
  if (is_array(code)) {
    ok = this->code(each);
    if (ok && each == 0) {
      ok = walk(depth + 1) && this->code(each) && each != 0;
    }
    if (ok && (is_fixed(each) || is_variable(each))) {
      at_ = end;
      count = 0;
    }
  }
  for (std::uint32_t i = 0; ok && i < count; ++i) {
    // Elements that take no bytes are fixed ones, which are not walked through.
    ok = is_array(code) ? walk_payload(each, depth + 1) : walk(depth + 1);
  }
  at_ = end;
  end_ = outer;
  return ok;
}

bool AmqpReader::walk(unsigned depth) noexcept {
  std::uint8_t which = 0;
  if (!code(which)) {
    return false;
  }
  if (which != 0) {
    return walk_payload(which, depth);
  }
  return depth < kMostDepth && walk(depth + 1) && walk(depth + 1);
}

bool AmqpReader::read_descriptor(std::uint64_t& number_out) noexcept {
  std::uint8_t which = 0;
  if (!code(which) || which != 0 || !code(which)) {
    return false;
  }
  switch (which) {
    case 0x44:
      number_out = 0;
      return true;
    case 0x53:
      return number(1, number_out);
    case 0x80:
      return number(8, number_out);
    default:
      return false;
  }
}

bool AmqpReader::read_text(std::string_view& text) noexcept {
  std::uint8_t which = 0;
  std::uint64_t size = 0;
  return code(which) && is_variable(which) && number((which >> 4U) == 0xa ? 1 : 4, size) &&
         take(size, text);
}

bool AmqpReader::enter_list(std::uint32_t& count) noexcept {
  std::uint8_t which = 0;
  std::size_t end = 0;
  count = 0;
  if (!code(which)) {
    return false;
  }
  if (which == 0x45) {
    end_ = at_;
    return true;
  }
  if ((which != 0xc0 && which != 0xd0) || !head(which, end, count)) {
    return false;
  }
  end_ = end;
  return true;
}

void append_amqp(std::string& out, bool value) { out += value ? '\x41' : '\x42'; }

void append_amqp(std::string& out, std::int64_t value) {
  if (value >= -128 && value <= 127) {
    out += '\x54';
    out += static_cast<char>(value);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    out += '\x71';
    append_number(out, static_cast<std::uint64_t>(value), 4);
  } else {
    out += '\x81';
    append_number(out, static_cast<std::uint64_t>(value), 8);
  }
}

void append_amqp(std::string& out, std::string_view value) {
  append_sized(out, '\xa1', '\xb1', value);
}

void append_amqp(std::string& out, const std::vector<std::string>& list) {
  const std::size_t begun = begin_amqp(out, '\xd0');
  for (const std::string& each : list) {
    append_amqp(out, std::string_view(each));
  }
  end_amqp(out, begun, static_cast<std::uint32_t>(list.size()));
}

void append_amqp(std::string& out, const Attributes& map) {
  const std::size_t begun = begin_amqp(out, '\xd1');
  for (const Attribute& each : map) {
    append_amqp(out, each.name);
    std::visit([&out](const auto& value) { append_amqp(out, value); }, each.value);
  }
  end_amqp(out, begun, static_cast<std::uint32_t>(2 * map.size()));
}

void append_amqp_symbol(std::string& out, std::string_view value) {
  append_sized(out, '\xa3', '\xb3', value);
}
void append_amqp_binary(std::string& out, std::string_view value) {
  append_sized(out, '\xa0', '\xb0', value);
}

std::size_t begin_amqp(std::string& out, char code) {
  out += code;
  out.append(8, '\0');
  return out.size();
}

void end_amqp(std::string& out, std::size_t begun, std::uint32_t count) {
  const std::size_t size = out.size() - begun + 4;
  for (unsigned i = 0; i < 4; ++i) {
    out[begun - 8 + i] = static_cast<char>(size >> (24 - 8 * i));
    out[begun - 4 + i] = static_cast<char>(count >> (24 - 8 * i));
  }
}

void encode_request(std::string& out, const ManagementRequest& request, std::string_view reply_to,
                    std::string_view correlation) {
  using namespace std::string_view_literals;
  out = "\x00\x53\x73"sv;
  const std::size_t properties = begin_amqp(out, '\xd0');
  out += "\x40\x40\x40\x40"sv;  // message-id, user-id, to, subject
  append_amqp(out, reply_to);
  append_amqp(out, correlation);
  end_amqp(out, properties, 6);
  out += "\x00\x53\x74"sv;
  append_amqp(out, request.properties);
  out += "\x00\x53\x77"sv;
  std::visit([&out](const auto& body) { append_amqp(out, body); }, request.body);
}

std::optional<ReplyParts> split_reply(std::string_view message) noexcept {
  constexpr std::uint64_t kFirst = 0x70, kProperties = 0x73, kApplication = 0x74;
  constexpr std::uint64_t kFirstBody = 0x75, kLastBody = 0x77;
  ReplyParts parts;
  AmqpReader reader(message);
  while (!reader.at_end()) {
    std::uint64_t section = 0;
    if (!reader.read_descriptor(section) || section < kFirst || section > kLastBody) {
      return std::nullopt;
    }
    const std::string_view value = reader.rest();
    if (section >= kFirstBody) {
      parts.body = section == kFirstBody ? std::string_view() : value;
      return parts;
    }
    if (!reader.skip()) {
      return std::nullopt;
    }
    if (section == kApplication) {
      parts.properties = value;
    } else if (section == kProperties) {
      AmqpReader list(value);
      std::uint32_t count = 0;
      if (!list.enter_list(count)) {
        return std::nullopt;
      }
      constexpr std::uint32_t kCorrelation = 5;
      bool ok = count > kCorrelation;
      for (std::uint32_t i = 0; ok && i < kCorrelation; ++i) {
        ok = list.skip();
      }
      const bool text =
          ok && !list.at_end() && (list.rest().front() == '\xa1' || list.rest().front() == '\xb1');
      if (text && !list.read_text(parts.correlation)) {
        return std::nullopt;
      }
    }
  }
  return parts;
}

ManagementReply decode_reply(const ReplyParts& parts) {
  const auto read = [](std::string_view bytes) {
    Json out;
    return bytes.empty() || AmqpReader(bytes).read(out) ? std::move(out) : Json();
  };
  return {read(parts.properties), read(parts.body)};
}

}  // namespace kintsugi::workers
