#include "serving/internal/otlp.h"

#include <cstddef>

#include "base/version.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::serving {
namespace {

constexpr std::uint64_t kStatusError = 2;
constexpr std::int64_t kNanos = 1'000;  // of a microsecond

std::string attribute(std::string_view key, std::string_view value) {
  std::string out;
  krm::put_bytes(out, 1, key);
  krm::put_bytes(out, 2, value);
  return out;
}

std::string text_attribute(std::string_view key, std::string_view text) {
  std::string value;
  krm::put_bytes(value, 1, text);
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

std::string message_of(const Span& span) {
  std::string out;
  krm::put_bytes(out, 1, {reinterpret_cast<const char*>(span.trace.data()), span.trace.size()});
  krm::put_bytes(out, 2, big_endian(span.id));
  if (span.parent != 0) {
    krm::put_bytes(out, 4, big_endian(span.parent));
  }
  krm::put_bytes(out, 5, span.name);
  krm::put_number(out, 6, static_cast<std::uint64_t>(span.kind));
  krm::put_fixed64(out, 7, nanos(span.begin));
  krm::put_fixed64(out, 8, nanos(span.end));
  for (const SpanAttribute& one : span.attributes) {
    if (!one.is_number) {
      krm::put_bytes(out, 9, text_attribute(one.key, one.text));
      continue;
    }
    std::string value;
    krm::put_number(value, 3, static_cast<std::uint64_t>(one.number));
    krm::put_bytes(out, 9, attribute(one.key, value));
  }
  if (span.first_byte != 0) {
    std::string event;
    krm::put_fixed64(event, 1, nanos(span.first_byte));
    krm::put_bytes(event, 2, "first byte");
    krm::put_bytes(out, 11, event);
  }
  if (!span.fault.empty()) {
    std::string status;
    krm::put_bytes(status, 2, span.fault);
    krm::put_number(status, 3, kStatusError);
    krm::put_bytes(out, 15, status);
  }
  return out;
}

}  // namespace

std::string encode_spans(const TraceResource& resource, const std::vector<Span>& spans) {
  std::string described;
  for (const auto& [key, text] : resource) {
    krm::put_bytes(described, 1, text_attribute(key, text));
  }
  std::string scope;
  krm::put_bytes(scope, 1, "kintsugi");
  krm::put_bytes(scope, 2, build_version());
  std::string in_scope;
  krm::put_bytes(in_scope, 1, scope);
  for (const Span& span : spans) {
    krm::put_bytes(in_scope, 2, message_of(span));
  }
  std::string of_resource;
  krm::put_bytes(of_resource, 1, described);
  krm::put_bytes(of_resource, 2, in_scope);
  std::string out;
  krm::put_bytes(out, 1, of_resource);
  return out;
}

std::optional<std::uint64_t> rejected_spans(std::string_view answer) {
  std::uint64_t rejected = 0;
  krm::WireReader reader(answer);
  for (krm::WireField field; reader.next(field);) {
    if (field.field != 1) {
      continue;
    }
    krm::WireReader partial(field.bytes);
    for (krm::WireField inner; partial.next(inner);) {
      rejected = inner.field == 1 ? inner.number : rejected;
    }
    if (partial.malformed()) {
      return std::nullopt;
    }
  }
  return reader.malformed() ? std::nullopt : std::optional<std::uint64_t>(rejected);
}

}  // namespace kintsugi::serving
