#include "net/internal/otlp.h"

#include <cstddef>

#include "base/version.h"

namespace kintsugi::net {
namespace {

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr std::uint64_t kStatusError = 2;
constexpr std::int64_t kNanos = 1'000;  // of a microsecond

/// One message of protobuf.
class Message {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, Wire::kVarint);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    tag(field, Wire::kFixed64);
    for (unsigned shift = 0; shift < 64; shift += 8) {
      text_ += static_cast<char>(value >> shift);
    }
  }
  void bytes(std::uint32_t field, std::string_view value) {
    tag(field, Wire::kBytes);
    varint(value.size());
    text_.append(value);
  }
  void message(std::uint32_t field, const Message& value) { bytes(field, value.text_); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void tag(std::uint32_t field, Wire wire) {
    varint(std::uint64_t{field} << 3U | static_cast<std::uint64_t>(wire));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
      text_ += static_cast<char>(value | 0x80U);
    }
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

Message attribute(std::string_view key, const Message& value) {
  Message out;
  out.bytes(1, key);
  out.message(2, value);
  return out;
}

Message text_attribute(std::string_view key, std::string_view text) {
  Message value;
  value.bytes(1, text);
  return attribute(key, value);
}

std::string big_endian(SpanId id) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) {
    out += static_cast<char>(id >> static_cast<unsigned>(shift));
  }
  return out;
}

std::uint64_t nanos(std::int64_t microseconds) {
  return static_cast<std::uint64_t>(microseconds * kNanos);
}

Message message_of(const Span& span) {
  Message out;
  out.bytes(1, {reinterpret_cast<const char*>(span.trace.data()), span.trace.size()});
  out.bytes(2, big_endian(span.id));
  if (span.parent != 0) {
    out.bytes(4, big_endian(span.parent));
  }
  out.bytes(5, span.name);
  out.number(6, static_cast<std::uint64_t>(span.kind));
  out.fixed(7, nanos(span.begin));
  out.fixed(8, nanos(span.end));
  for (const SpanAttribute& one : span.attributes) {
    if (!one.is_number) {
      out.message(9, text_attribute(one.key, one.text));
      continue;
    }
    Message value;
    value.number(3, static_cast<std::uint64_t>(one.number));
    out.message(9, attribute(one.key, value));
  }
  if (span.first_byte != 0) {
    Message event;
    event.fixed(1, nanos(span.first_byte));
    event.bytes(2, "first byte");
    out.message(11, event);
  }
  if (!span.fault.empty()) {
    Message status;
    status.bytes(2, span.fault);
    status.number(3, kStatusError);
    out.message(15, status);
  }
  return out;
}

/// Reads fields of a message.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  /// The next field; 0: there is none, or what follows is no field.
  [[nodiscard]] std::uint32_t next() {
    bytes_ = {};
    if (rest_.empty()) {
      return 0;
    }
    const std::uint64_t tag = varint();
    const auto wire = static_cast<Wire>(tag & 7U);
    if (wire == Wire::kVarint) {
      number_ = varint();
    } else {
      const std::uint64_t size = wire == Wire::kBytes     ? varint()
                                 : wire == Wire::kFixed64 ? 8
                                 : wire == Wire::kFixed32 ? 4
                                                          : rest_.size() + 1;
      is_broken_ = is_broken_ || size > rest_.size();
      bytes_ = rest_.substr(0, is_broken_ ? 0 : static_cast<std::size_t>(size));
      rest_.remove_prefix(bytes_.size());
    }
    is_broken_ = is_broken_ || tag >> 3U == 0;
    return is_broken_ ? 0 : static_cast<std::uint32_t>(tag >> 3U);
  }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }

 private:
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      out |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        return out;
      }
    }
    is_broken_ = true;
    return 0;
  }

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0;
  bool is_broken_ = false;
};

}  // namespace

std::string encode_spans(const TraceResource& resource, const std::vector<Span>& spans) {
  Message described;
  for (const auto& [key, text] : resource) {
    described.message(1, text_attribute(key, text));
  }
  Message scope;
  scope.bytes(1, "kintsugi");
  scope.bytes(2, build_version());
  Message in_scope;
  in_scope.message(1, scope);
  for (const Span& span : spans) {
    in_scope.message(2, message_of(span));
  }
  Message of_resource;
  of_resource.message(1, described);
  of_resource.message(2, in_scope);
  Message out;
  out.message(1, of_resource);
  return out.take();
}

std::optional<std::uint64_t> rejected_spans(std::string_view answer) {
  std::uint64_t rejected = 0;
  Reader reader(answer);
  while (const std::uint32_t field = reader.next()) {
    if (field != 1) {
      continue;
    }
    Reader partial(reader.bytes());
    while (const std::uint32_t inner = partial.next()) {
      rejected = inner == 1 ? partial.number() : rejected;
    }
    if (partial.is_broken()) {
      return std::nullopt;
    }
  }
  return reader.is_broken() ? std::nullopt : std::optional<std::uint64_t>(rejected);
}

}  // namespace kintsugi::net
