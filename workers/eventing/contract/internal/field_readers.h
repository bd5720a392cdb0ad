#pragma once

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/protobuf_wire.h"
#include "workers/eventing/contract/internal/fields.h"

/// Visitors of fields.h that read.
namespace kintsugi::workers {

/// Where a reader is, and what was wrong first; one for a whole contract.
class ReadingPlace {
 public:
  [[nodiscard]] bool failed() const noexcept { return error_.has_value(); }
  void fail(std::string_view field, std::string_view what) {
    if (!error_) {
      error_ = path_.empty() || field.empty() ? path_ + std::string(field)
                                              : path_ + "." + std::string(field);
      *error_ += (error_->empty() ? "" : ": ") + std::string(what);
    }
  }
  [[nodiscard]] std::string take_error() { return std::move(*error_); }

  /// Adds a step to the path for its lifetime, and counts filters that are inside each other.
  class Step {
   public:
    Step(ReadingPlace& place, std::string_view field, std::optional<std::size_t> index = {})
        : place_(place), before_(place.path_.size()) {
      place.path_ += (place.path_.empty() ? "" : ".") + std::string(field);
      if (index) {
        place.path_ += "[" + std::to_string(*index) + "]";
      }
      ++place.depth_;
    }
    ~Step() {
      place_.path_.resize(before_);
      --place_.depth_;
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    ReadingPlace& place_;
    std::size_t before_;
  };
  /// Steps that a contract has above its outermost filter, and the two that each further one adds.
  [[nodiscard]] bool too_deep() const noexcept { return depth_ > 3 + 2 * kMaxFilterDepth; }

 private:
  std::string path_;
  std::size_t depth_ = 0;
  std::optional<std::string> error_;
};

/// What both readers do with a value that they have.
template <class N>
[[nodiscard]] bool narrow(std::int64_t value, N& out) {
  if (value < static_cast<std::int64_t>(std::numeric_limits<N>::min()) ||
      value > static_cast<std::int64_t>(std::numeric_limits<N>::max())) {
    return false;
  }
  out = static_cast<N>(value);
  return true;
}

class WireFieldReader {
 public:
  template <class M>
  static void parse(ReadingPlace& place, std::string_view bytes, M& m) {
    if (place.too_deep()) {
      return place.fail("", "filters are nested too deeply");
    }
    WireFieldReader reader(place);
    krm::WireReader wire(bytes);
    for (krm::WireField field; wire.next(field);) {
      reader.fields_.push_back({field, false});
    }
    if (wire.malformed()) {
      return place.fail("", "is no message of protobuf");
    }
    visit_fields(reader, m);
    for (const Seen& seen : reader.fields_) {
      if (!seen.used) {
        keep(m.unknown.wire, seen.field);
      }
    }
  }

  void text(std::uint32_t n, std::string_view name, std::string& out) {
    each(n, name, krm::WireType::kBytes, [&](const krm::WireField& f) { to_text(name, f, out); });
  }
  template <class N>
  void number(std::uint32_t n, std::string_view name, N& out) {
    each(n, name, krm::WireType::kVarint, [&](const krm::WireField& f) {
      if constexpr (sizeof(N) == 8) {
        out = f.number;
      } else {
        // As protobuf's readers do, a number of 32 bits is the lower half.
        out = static_cast<N>(static_cast<std::uint32_t>(f.number));
      }
    });
  }
  void flag(std::uint32_t n, std::string_view name, bool& out) {
    each(n, name, krm::WireType::kVarint, [&](const krm::WireField& f) { out = f.number != 0; });
  }
  template <class E, class Names>
  void choice(std::uint32_t n, std::string_view name, E& out, const Names& names) {
    each(n, name, krm::WireType::kVarint, [&](const krm::WireField& f) {
      if (f.number >= names.size()) {
        return place_.fail(name, "has an unknown value");
      }
      out = static_cast<E>(f.number);
    });
  }
  void texts(std::uint32_t n, std::string_view name, std::vector<std::string>& out) {
    each(n, name, krm::WireType::kBytes,
         [&](const krm::WireField& f) { to_text(name, f, out.emplace_back()); });
  }
  template <class M>
  void message(std::uint32_t n, std::string_view name, std::optional<M>& out) {
    if (const auto bytes = joined(n, name)) {
      const ReadingPlace::Step step(place_, name);
      parse(place_, *bytes, out.emplace());
    }
  }
  template <class M>
  void messages(std::uint32_t n, std::string_view name, std::vector<M>& out) {
    each(n, name, krm::WireType::kBytes, [&](const krm::WireField& f) {
      const ReadingPlace::Step step(place_, name, out.size());
      parse(place_, f.bytes, out.emplace_back());
    });
  }
  void text_map(std::uint32_t n, std::string_view name, TextMap& out) {
    each(n, name, krm::WireType::kBytes, [&](const krm::WireField& f) {
      Entry entry;
      parse(place_, f.bytes, entry);
      out[entry.key] = entry.value;
    });
  }
  void map_message(std::uint32_t n, std::string_view name, std::string_view inner,
                   std::optional<TextMap>& out) {
    if (const auto bytes = joined(n, name)) {
      const ReadingPlace::Step step(place_, name);
      Map map{inner, {}, {}};
      parse(place_, *bytes, map);
      out = std::move(map.map);
    }
  }
  template <class F>
  void one_text(std::uint32_t n, std::string_view name, std::string& out, bool, const F& chosen) {
    each(n, name, krm::WireType::kBytes, [&](const krm::WireField& f) { to_text(name, f, out); });
    if (has(n)) {
      choose(name, chosen);
    }
  }
  template <class M, class F>
  void one_message(std::uint32_t n, std::string_view name, M& out, bool, const F& chosen) {
    if (const auto bytes = joined(n, name)) {
      {
        const ReadingPlace::Step step(place_, name);
        parse(place_, *bytes, out);
      }
      choose(name, chosen);
    }
  }

 private:
  struct Seen {
    krm::WireField field;
    bool used;
  };
  struct Entry {
    std::string key, value;
    UnknownFields unknown;
  };
  template <class V>
  friend void visit_fields(V& v, Entry& m) {
    v.text(1, "key", m.key);
    v.text(2, "value", m.value);
  }
  struct Map {
    std::string_view name;
    TextMap map;
    UnknownFields unknown;
  };
  template <class V>
  friend void visit_fields(V& v, Map& m) {
    v.text_map(1, m.name, m.map);
  }

  explicit WireFieldReader(ReadingPlace& place) : place_(place) {}
  [[nodiscard]] bool has(std::uint32_t n) const noexcept {
    for (const Seen& seen : fields_) {
      if (seen.field.field == n) {
        return true;
      }
    }
    return false;
  }
  template <class F>
  void each(std::uint32_t n, std::string_view name, krm::WireType type, const F& take) {
    for (Seen& seen : fields_) {
      if (seen.field.field != n || place_.failed()) {
        continue;
      }
      seen.used = true;
      if (seen.field.type != type) {
        return place_.fail(name, "has the wire type of something else");
      }
      take(seen.field);
    }
  }
  /// All that came for a message: one that comes in several pieces is their sum.
  std::optional<std::string> joined(std::uint32_t n, std::string_view name) {
    std::optional<std::string> out;
    each(n, name, krm::WireType::kBytes, [&](const krm::WireField& f) {
      out = std::move(out).value_or(std::string()).append(f.bytes);
    });
    return place_.failed() ? std::nullopt : out;
  }
  void to_text(std::string_view name, const krm::WireField& f, std::string& out) {
    if (!is_valid_utf8(f.bytes)) {
      return place_.fail(name, "is not UTF-8");
    }
    out = f.bytes;
  }
  template <class F>
  void choose(std::string_view name, const F& chosen) {
    if (std::exchange(chosen_, true)) {
      return place_.fail(name, "excludes what is said besides");
    }
    chosen();
  }
  static void keep(std::string& out, const krm::WireField& f) {
    switch (f.type) {
      case krm::WireType::kVarint:
        return krm::put_number(out, f.field, f.number);
      case krm::WireType::kFixed64:
        return krm::put_fixed64(out, f.field, f.number);
      case krm::WireType::kBytes:
        return krm::put_bytes(out, f.field, f.bytes);
      case krm::WireType::kFixed32:
        krm::put_varint(out, (std::uint64_t{f.field} << 3) | 5);
        for (unsigned i = 0; i < 4; ++i) {
          out.push_back(static_cast<char>((f.number >> (8 * i)) & 0xFF));
        }
    }
  }

  ReadingPlace& place_;
  std::vector<Seen> fields_;
  bool chosen_ = false;
};

class JsonFieldReader {
 public:
  template <class M>
  static void parse(ReadingPlace& place, const krm::Json& json, M& m) {
    if (place.too_deep()) {
      return place.fail("", "filters are nested too deeply");
    }
    if (!json.is_object()) {
      return place.fail("", "must be an object");
    }
    JsonFieldReader reader(place, json);
    visit_fields(reader, m);
    for (const krm::JsonMember& member : json.members()) {
      if (std::find(reader.known_.begin(), reader.known_.end(), member.key) ==
          reader.known_.end()) {
        m.unknown.members[member.key] = member.value;
      }
    }
  }

  void text(std::uint32_t, std::string_view name, std::string& out) {
    if (const krm::Json* const value = find(name)) {
      to_text(name, *value, out);
    }
  }
  template <class N>
  void number(std::uint32_t, std::string_view name, N& out) {
    const krm::Json* const value = find(name);
    if (value == nullptr) {
      return;
    }
    if (value->is_integer() && value->as_integer() >= 0 && sizeof(N) == 8) {
      out = static_cast<N>(value->as_integer());
    } else if (value->is_integer() && sizeof(N) < 8 && narrow(value->as_integer(), out)) {
    } else {
      // Numbers beyond int64 keep their text.
      const std::string text = value->is_string() ? std::string(value->as_string()) : value->dump();
      const char* const end = text.data() + text.size();
      const auto result = std::from_chars(text.data(), end, out);
      if (result.ec != std::errc() || result.ptr != end) {
        place_.fail(name, "must be an integer in its range");
      }
    }
  }
  void flag(std::uint32_t, std::string_view name, bool& out) {
    if (const krm::Json* const value = find(name)) {
      if (!value->is_bool()) {
        return place_.fail(name, "must be true or false");
      }
      out = value->as_bool();
    }
  }
  template <class E, class Names>
  void choice(std::uint32_t, std::string_view name, E& out, const Names& names) {
    const krm::Json* const value = find(name);
    if (value == nullptr) {
      return;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (value->as_string() == names[i] ||
          (value->is_integer() && value->as_integer() == static_cast<std::int64_t>(i))) {
        out = static_cast<E>(i);
        return;
      }
    }
    place_.fail(name, "has an unknown value");
  }
  void texts(std::uint32_t, std::string_view name, std::vector<std::string>& out) {
    each(name, [&](const krm::Json& item) { to_text(name, item, out.emplace_back()); });
  }
  template <class M>
  void message(std::uint32_t, std::string_view name, std::optional<M>& out) {
    if (const krm::Json* const value = find(name)) {
      const ReadingPlace::Step step(place_, name);
      parse(place_, *value, out.emplace());
    }
  }
  template <class M>
  void messages(std::uint32_t, std::string_view name, std::vector<M>& out) {
    each(name, [&](const krm::Json& item) {
      const ReadingPlace::Step step(place_, name, out.size());
      parse(place_, item, out.emplace_back());
    });
  }
  void text_map(std::uint32_t, std::string_view name, TextMap& out) {
    const krm::Json* const value = find(name);
    if (value == nullptr) {
      return;
    }
    if (!value->is_object()) {
      return place_.fail(name, "must be an object");
    }
    for (const krm::JsonMember& member : value->members()) {
      const ReadingPlace::Step step(place_, name);
      to_text(member.key, member.value, out[member.key]);
    }
  }
  void map_message(std::uint32_t, std::string_view name, std::string_view inner,
                   std::optional<TextMap>& out) {
    if (const krm::Json* const value = find(name)) {
      const ReadingPlace::Step step(place_, name);
      if (!value->is_object()) {
        return place_.fail("", "must be an object");
      }
      JsonFieldReader(place_, *value).text_map(1, inner, out.emplace());
    }
  }
  template <class F>
  void one_text(std::uint32_t, std::string_view name, std::string& out, bool, const F& chosen) {
    if (const krm::Json* const value = find(name)) {
      to_text(name, *value, out);
      choose(name, chosen);
    }
  }
  template <class M, class F>
  void one_message(std::uint32_t, std::string_view name, M& out, bool, const F& chosen) {
    if (const krm::Json* const value = find(name)) {
      {
        const ReadingPlace::Step step(place_, name);
        parse(place_, *value, out);
      }
      choose(name, chosen);
    }
  }

 private:
  JsonFieldReader(ReadingPlace& place, const krm::Json& json) : place_(place), json_(json) {}
  /// nullptr: it is left out, or null, which is the same.
  const krm::Json* find(std::string_view name) {
    known_.push_back(name);
    const krm::Json* const value = json_.find(name);
    return value == nullptr || value->is_null() || place_.failed() ? nullptr : value;
  }
  template <class F>
  void each(std::string_view name, const F& take) {
    const krm::Json* const value = find(name);
    if (value == nullptr) {
      return;
    }
    if (!value->is_array()) {
      return place_.fail(name, "must be a list");
    }
    for (const krm::Json& item : value->items()) {
      take(item);
    }
  }
  void to_text(std::string_view name, const krm::Json& value, std::string& out) {
    if (!value.is_string()) {
      return place_.fail(name, "must be a text");
    }
    out = value.as_string();
  }
  template <class F>
  void choose(std::string_view name, const F& chosen) {
    if (std::exchange(chosen_, true)) {
      return place_.fail(name, "excludes what is said besides");
    }
    chosen();
  }

  ReadingPlace& place_;
  const krm::Json& json_;
  std::vector<std::string_view> known_;
  bool chosen_ = false;
};

}  // namespace kintsugi::workers
