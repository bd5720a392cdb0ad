#include "aggregation/bytes/cut_event.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "aggregation/bytes/json_split.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxName = 512;  // Kubernetes allows 253
constexpr std::size_t kLengthBytes = 4, kMagicBytes = 4;

struct Key {
  std::string_view ns, name;
};

std::string text_of(const Key& key) {
  if (key.name.size() > kMaxName || key.ns.size() > kMaxName) {
    return {};
  }
  return key.ns.empty() ? std::string(key.name) : std::string(key.ns) + '/' + std::string(key.name);
}

/// Goes through the members of an object; the last one's value may be cut off.
class CutWalk {
 public:
  struct Member {
    std::string_view key, value;
    bool whole = true;
  };
  explicit CutWalk(std::string_view object) noexcept
      : text_(object), at_(!object.empty() && object.front() == '{' ? 1 : object.size()) {}

  std::optional<Member> next() noexcept {
    skip(" \n\r\t,");
    if (at_ >= text_.size() || text_[at_] != '"') {
      return std::nullopt;
    }
    const std::size_t key_end = value_end(text_, at_);
    if (key_end == std::string_view::npos) {
      return std::nullopt;
    }
    Member member;
    member.key = text_.substr(at_ + 1, key_end - at_ - 2);
    at_ = key_end;
    skip(" \n\r\t:");
    const std::size_t end = value_end(text_, at_);
    member.whole = end != std::string_view::npos;
    member.value = text_.substr(at_, member.whole ? end - at_ : std::string_view::npos);
    at_ = member.whole ? end : text_.size();
    return member;
  }

 private:
  void skip(std::string_view which) noexcept {
    at_ = std::min(text_.find_first_not_of(which, at_), text_.size());
  }
  std::string_view text_;
  std::size_t at_;
};

Key key_in(std::string_view metadata) {
  Key key;
  for (CutWalk walk(metadata); const auto member = walk.next();) {
    if (member->whole && key_is(member->key, "name")) {
      key.name = plain_string(member->value).value_or(std::string_view());
    } else if (member->whole && key_is(member->key, "namespace")) {
      key.ns = plain_string(member->value).value_or(std::string_view());
    }
  }
  return key;
}

Key key_of_object(std::string_view object) {
  for (CutWalk walk(object); const auto member = walk.next();) {
    if (key_is(member->key, "metadata")) {
      return key_in(member->value);
    }
  }
  return {};
}

/// Of the first row.
Key key_of_rows(std::string_view rows) {
  const std::size_t first = rows.find('{');
  if (first == std::string_view::npos) {
    return {};
  }
  for (CutWalk walk(rows.substr(first)); const auto member = walk.next();) {
    if (key_is(member->key, "object")) {
      return key_of_object(member->value);
    }
  }
  return {};
}

std::optional<std::uint64_t> take_varint(std::string_view& rest) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < rest.size() && i < 10; ++i) {
    const auto byte = static_cast<std::uint8_t>(rest[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) {
      rest.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

struct CutField {
  std::uint64_t number = 0;
  std::string_view bytes;  ///< may be cut off
  bool whole = true;
};

/// The next field of bytes; others are skipped.
std::optional<CutField> take_field(std::string_view& rest) noexcept {
  while (const auto tag = take_varint(rest)) {
    const auto type = static_cast<unsigned>(*tag & 7);
    if (type == 0) {
      if (!take_varint(rest)) {
        return std::nullopt;
      }
      continue;
    }
    std::uint64_t size = type == 1 ? 8 : 4;
    if (type == 2) {
      const auto length = take_varint(rest);
      if (!length) {
        return std::nullopt;
      }
      size = *length;
    } else if (type != 1 && type != 5) {
      return std::nullopt;
    }
    const std::string_view bytes = rest.substr(0, static_cast<std::size_t>(size));
    rest.remove_prefix(bytes.size());
    if (type == 2) {
      return CutField{*tag >> 3, bytes, bytes.size() == size};
    }
  }
  return std::nullopt;
}

/// The first field of that number, as far as it came.
std::string_view field_in(std::string_view message, std::uint64_t number) noexcept {
  while (const auto field = take_field(message)) {
    if (field->number == number) {
      return field->bytes;
    }
  }
  return {};
}

std::string_view after(std::string_view text, std::size_t size) noexcept {
  return text.substr(std::min(size, text.size()));
}

}  // namespace

std::string json_key_of_beginning(std::string_view event) {
  for (CutWalk walk(event); const auto member = walk.next();) {
    if (!key_is(member->key, "object")) {
      continue;
    }
    Key key = key_of_object(member->value);
    for (CutWalk table(member->value); key.name.empty();) {
      const auto field = table.next();
      if (!field) {
        break;
      }
      if (key_is(field->key, "rows")) {
        key = key_of_rows(field->value);
      }
    }
    return text_of(key);
  }
  return {};
}

std::string proto_key_of_beginning(std::string_view frame) {
  const std::string_view object = field_in(field_in(after(frame, kLengthBytes), 2), 1);
  std::string_view metadata = field_in(field_in(after(object, kMagicBytes), 2), 1);
  Key key;
  while (const auto field = take_field(metadata)) {
    if (field->whole && field->number == 1) {
      key.name = field->bytes;
    } else if (field->whole && field->number == 3) {
      key.ns = field->bytes;
    }
  }
  return text_of(key);
}

}  // namespace kintsugi::aggregation
