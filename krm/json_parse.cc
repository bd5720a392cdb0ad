#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <system_error>

#include "base/strings.h"
#include "krm/internal/json_text.h"
#include "krm/internal/member_span.h"
#include "krm/internal/plain_bytes.h"
#include "krm/json.h"

#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#endif
// RapidJSON 1.1 adds to the null pointer of an empty stack, harmlessly; clang's sanitizer objects.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/reader.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMaxDuplicates = 100;  // as in sigs.k8s.io/json
constexpr std::size_t kPadding = 32;         // vector loads may read past the end

bool is_utf8(std::string_view text) noexcept { return is_ascii(text) || is_valid_utf8(text); }

/// int64 where it fits, a double where 17 digits say it all, else the text.
Json to_number(std::string_view text) {
  const char* const end = text.data() + text.size();
  const bool real = text.find_first_of(".eE") != std::string_view::npos;
  if (!real) {
    std::int64_t integer = 0;
    const auto result = std::from_chars(text.data(), end, integer);
    return result.ec == std::errc() ? Json(integer) : Json::big_number(std::string(text));
  }
  int digits = 0;
  int trailing_zeros = 0;
  for (const char c : text.substr(0, text.find_first_of("eE"))) {
    if (c < '0' || c > '9' || (digits == 0 && c == '0')) {
      continue;
    }
    ++digits;
    trailing_zeros = c == '0' ? trailing_zeros + 1 : 0;
  }
  double value = 0;
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || digits - trailing_zeros > 17) {
    return Json::big_number(std::string(text));
  }
  return Json(value == 0 ? 0.0 : value);  // -0.0 would be read back as the integer 0
}

/// Takes RapidJSON's events. Finished values wait on one flat stack until their container ends,
/// so every container is allocated once, in its final size.
class Builder {
 public:
  /// @param check_text whether decoded strings may be no UTF-8: RapidJSON lets an escaped low
  ///        surrogate pass that follows no high one.
  Builder(std::size_t max_depth, bool collect_duplicates, bool check_text)
      : max_depth_(max_depth), collect_duplicates_(collect_duplicates), check_text_(check_text) {
    values_.reserve(64);
    keys_.reserve(32);
    frames_.reserve(16);
  }

  // The handler interface of rapidjson::Reader.
  bool Null() { return add(Json()); }
  bool Bool(bool value) { return add(Json(value)); }
  bool Int(int value) { return add(Json(value)); }
  bool Uint(unsigned value) { return add(Json(static_cast<std::uint64_t>(value))); }
  bool Int64(std::int64_t value) { return add(Json(value)); }
  bool Uint64(std::uint64_t value) { return add(Json(value)); }
  bool Double(double value) { return add(Json(value)); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return add(to_number({text, size}));
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return is_text({text, size}) && add(Json(std::string_view(text, size)));
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    keys_.emplace_back(text, size);
    return is_text({text, size});
  }
  bool StartObject() { return open(true); }
  bool StartArray() { return open(false); }

  bool EndObject(rapidjson::SizeType /*count*/) {
    const Frame frame = frames_.back();
    Json object;
    fill(object.edit_members(), frame);
    keys_.resize(frame.first_key);
    return close(frame, std::move(object));
  }
  bool EndArray(rapidjson::SizeType /*count*/) {
    const Frame frame = frames_.back();
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(frame.first_value);
    Json array;
    array.edit_items().assign(std::make_move_iterator(first),
                              std::make_move_iterator(values_.end()));
    return close(frame, std::move(array));
  }

  [[nodiscard]] bool too_deep() const { return too_deep_; }
  [[nodiscard]] Json take() { return std::move(values_.front()); }
  [[nodiscard]] std::vector<std::string> take_duplicates() {
    std::sort(duplicates_.begin(), duplicates_.end());
    std::vector<std::string> paths;
    for (auto& [where, path] : duplicates_) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end() &&
          paths.size() < kMaxDuplicates) {
        paths.push_back(std::move(path));
      }
    }
    return paths;
  }

 private:
  struct Frame {
    std::size_t first_value;
    std::size_t first_key;
    bool is_object;
  };

  bool is_text(std::string_view text) { return !check_text_ || is_utf8(text); }
  bool add(Json value) {
    values_.push_back(std::move(value));
    return true;
  }
  bool open(bool is_object) {
    if (frames_.size() >= max_depth_) {
      too_deep_ = true;
      return false;
    }
    frames_.push_back({values_.size(), keys_.size(), is_object});
    return true;
  }
  bool close(const Frame& frame, Json container) {
    values_.resize(frame.first_value);
    frames_.pop_back();
    values_.push_back(std::move(container));
    return true;
  }

  void fill(Json::Object& members, const Frame& frame) {
    const std::string_view* const keys = keys_.data() + frame.first_key;
    Json* const values = values_.data() + frame.first_value;
    const std::size_t count = keys_.size() - frame.first_key;
    bool ascending = true;
    for (std::size_t i = 1; i < count && ascending; ++i) {
      ascending = keys[i - 1] < keys[i];
    }
    members.reserve(count);
    if (ascending) {
      for (std::size_t i = 0; i < count; ++i) {
        members.push_back(JsonMember{std::string(keys[i]), std::move(values[i])});
      }
      return;
    }
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [keys](std::uint32_t a, std::uint32_t b) {
      const int order = keys[a].compare(keys[b]);
      return order != 0 ? order < 0 : a < b;
    });
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t at = order_[i];
      if (i > 0 && keys[order_[i - 1]] == keys[at]) {
        members.back().value = std::move(values[at]);
        note_duplicate(keys[at]);
      } else {
        members.push_back(JsonMember{std::string(keys[at]), std::move(values[at])});
      }
    }
  }

  void note_duplicate(std::string_view key) {
    if (!collect_duplicates_ || duplicates_.size() >= kMaxDuplicates * 10) {
      return;
    }
    std::string path;
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      const bool last = i + 1 == frames_.size();
      if (frames_[i].is_object) {
        if (!path.empty()) {
          path.push_back('.');
        }
        path.append(last ? key : keys_[frames_[i + 1].first_key - 1]);
      } else {
        path.push_back('[');
        path.append(std::to_string(frames_[i + 1].first_value - frames_[i].first_value));
        path.push_back(']');
      }
    }
    duplicates_.emplace_back(key.data(), std::move(path));
  }

  const std::size_t max_depth_;
  const bool collect_duplicates_;
  const bool check_text_;
  bool too_deep_ = false;
  std::vector<Json> values_;
  std::vector<std::string_view> keys_;  // point into the parse buffer
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> order_;
  std::vector<std::pair<const char*, std::string>> duplicates_;  // position, path
};

std::string explain(std::string_view text, rapidjson::ParseErrorCode code) {
  std::string message = describe_json_error(text);
  if (!message.empty()) {
    return message;
  }
  switch (code) {
    case rapidjson::kParseErrorNumberTooBig:
      return "json: number out of range of type float64";
    default:
      return "invalid JSON";
  }
}

/// Characters that no JSON text has: RapidJSON 1.1 lets these pass in strings, of which it looks at
/// 16 bytes at once.
bool has_unseen_controls(std::string_view text) noexcept { return has_any_of(text, 0x1a, 0x1f); }

/// Half of a surrogate pair, as \uXXXX at a place of a text.
enum class Half { kNone, kHigh, kLow };

Half half_at(std::string_view text, std::size_t place) {
  const std::string_view code = text.substr(std::min(place, text.size()), 6);
  if (code.size() < 6 || code[0] != '\\' || code[1] != 'u' || (code[2] | 0x20) != 'd') {
    return Half::kNone;
  }
  const char c = static_cast<char>(code[3] | 0x20);
  return c == '8' || c == '9' || c == 'a' || c == 'b'   ? Half::kHigh
         : c == 'c' || c == 'd' || c == 'e' || c == 'f' ? Half::kLow
                                                        : Half::kNone;
}

/// Escaped halves of surrogate pairs that have no other half become U+FFFD, as in Go.
std::string with_whole_pairs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
    const Half half = half_at(text, i);
    if (half == Half::kHigh && half_at(text, i + 6) == Half::kLow) {
      length = 12;
    } else if (half != Half::kNone) {
      out += "\\ufffd";
      i += 6;
      continue;
    }
    out += text.substr(i, length);
    i += length;
  }
  return out;
}

}  // namespace

Expected<Json> Json::parse(std::string_view text, const ParseOptions& options,
                           ParseReport* report) {
  if (text.size() > 0xFFFFFFF0U) {
    return fail(Errc::kBadRequest, "JSON text of more than 4 GiB");
  }
  if (!is_utf8(text)) {
    std::string message = describe_json_error(text);
    return fail(Errc::kBadRequest, message.empty() ? "invalid UTF-8 in string" : message);
  }
  if (has_unseen_controls(text)) {
    return fail(Errc::kBadRequest, explain(text, rapidjson::kParseErrorNone));
  }
  const MemberSpan all_is_read{text.size(), text.size()};
  const MemberSpan gap = options.leave_out.empty()
                             ? all_is_read
                             : find_member(text, options.leave_out).value_or(all_is_read);
  // Decoded in place, in a copy: keys and strings are then views into it.
  const auto buffer = std::make_unique_for_overwrite<char[]>(text.size() + kPadding);
  std::size_t size = text.copy(buffer.get(), gap.begin);
  size += text.substr(gap.end).copy(buffer.get() + size, text.size() - gap.end);
  std::memset(buffer.get() + size, 0, kPadding);
  rapidjson::InsituStringStream stream(buffer.get());
  rapidjson::Reader reader;
  Builder builder(options.max_depth, options.collect_duplicates && report != nullptr,
                  text.find("\\u") != std::string_view::npos);
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseIterativeFlag | rapidjson::kParseInsituFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.too_deep()) {
    return fail(Errc::kBadRequest, "exceeded max depth");
  }
  // A NUL byte ends RapidJSON's input, not ours.
  if (result.IsError() || stream.Tell() != size) {
    if (gap.begin != gap.end) {  // what is wrong is told of the whole text
      return parse(text, {options.max_depth, options.collect_duplicates, {}}, report);
    }
    const bool halved = result.Code() == rapidjson::kParseErrorStringUnicodeSurrogateInvalid ||
                        result.Code() == rapidjson::kParseErrorTermination;
    if (std::string whole = halved ? with_whole_pairs(text) : std::string();
        whole != text && halved) {
      return parse(whole, options, report);  // has none, so that it comes here once
    }
    return fail(Errc::kBadRequest, explain(text, result.Code()));
  }
  if (report != nullptr) {
    report->duplicate_fields = builder.take_duplicates();
  }
  return builder.take();
}

}  // namespace kintsugi::krm
