#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/strings.h"
#include "krm/internal/json_reader.h"
#include "krm/internal/json_text.h"
#include "krm/internal/member_span.h"
#include "krm/internal/plain_bytes.h"
#include "krm/json.h"

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMaxDuplicates = 100;  // as in sigs.k8s.io/json

/// Of a number of which std::from_chars says that no double is it.
bool is_too_large(std::string_view text) {
  return std::isinf(std::strtod(std::string(text).c_str(), nullptr));
}

constexpr std::size_t kLongInteger = 300;  // digits of what may be no double

/// int64 where it fits, a double where 17 digits say it all, else the text. nullopt: more than any
/// double is.
std::optional<Json> to_number(std::string_view text) {
  const char* const end = text.data() + text.size();
  const bool real = text.find_first_of(".eE") != std::string_view::npos;
  if (!real) {
    std::int64_t integer = 0;
    const auto result = std::from_chars(text.data(), end, integer);
    if (result.ec == std::errc()) {
      return Json(integer);
    }
    if (text.size() > kLongInteger && is_too_large(text)) {
      return std::nullopt;
    }
    return Json::big_number(std::string(text));
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
  if (result.ec != std::errc() && is_too_large(text)) {
    return std::nullopt;
  }
  if (result.ec != std::errc() || digits - trailing_zeros > 17) {
    return Json::big_number(std::string(text));
  }
  return Json(value == 0 ? 0.0 : value);  // -0.0 would be read back as the integer 0
}

/// Takes what JsonReader reads. Finished values wait on one flat stack until their container ends,
/// so every container is allocated once, in its final size.
class Builder {
 public:
  Builder(std::size_t max_depth, bool collect_duplicates)
      : max_depth_(max_depth), collect_duplicates_(collect_duplicates) {
    values_.reserve(64);
    keys_.reserve(32);
    frames_.reserve(16);
  }

  // The handler of JsonReader.
  void literal(Json value) { values_.push_back(std::move(value)); }
  void text(std::string_view text) { values_.emplace_back(text); }
  void key(std::string_view text) { keys_.push_back(text); }
  bool number(std::string_view text) {
    std::optional<Json> value = to_number(text);
    too_large_ = !value;
    if (value) {
      values_.push_back(std::move(*value));
    }
    return !too_large_;
  }
  bool open(bool is_object) {
    if (frames_.size() >= max_depth_) {
      too_deep_ = true;
      return false;
    }
    frames_.push_back({values_.size(), keys_.size(), is_object});
    return true;
  }
  [[nodiscard]] bool is_open() const noexcept { return !frames_.empty(); }
  [[nodiscard]] bool in_object() const noexcept { return frames_.back().is_object; }
  void close() {
    const Frame frame = frames_.back();
    Json container;
    if (frame.is_object) {
      fill(container.edit_members(), frame);
      keys_.resize(frame.first_key);
    } else {
      const auto first = values_.begin() + static_cast<std::ptrdiff_t>(frame.first_value);
      container.edit_items().assign(std::make_move_iterator(first),
                                    std::make_move_iterator(values_.end()));
    }
    values_.resize(frame.first_value);
    frames_.pop_back();
    values_.push_back(std::move(container));
  }

  [[nodiscard]] bool too_large() const { return too_large_; }
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

  void fill(Json::Object& members, const Frame& frame) {
    const std::string_view* const keys = keys_.data() + frame.first_key;
    Json* const values = values_.data() + frame.first_value;
    const std::size_t count = keys_.size() - frame.first_key;
    bool ascending = true;
    for (std::size_t i = 1; i < count && ascending; ++i) {
      ascending = keys[i - 1] < keys[i];
    }
    if (ascending) {
      members.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        members[i].key.assign(keys[i]);
        members[i].value = std::move(values[i]);
      }
      return;
    }
    members.reserve(count);
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
  bool too_deep_ = false, too_large_ = false;
  std::vector<Json> values_;
  std::vector<std::string_view> keys_;  // point into the parse buffer
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> order_;
  std::vector<std::pair<const char*, std::string>> duplicates_;  // position, path
};

}  // namespace

Expected<Json> Json::parse(std::string_view text, const ParseOptions& options,
                           ParseReport* report) {
  if (text.size() > 0xFFFFFFF0U) {
    return fail(Errc::kBadRequest, "JSON text of more than 4 GiB");
  }
  if (!is_ascii(text) && !is_valid_utf8(text)) {
    std::string message = describe_json_error(text);
    return fail(Errc::kBadRequest, message.empty() ? "invalid UTF-8 in string" : message);
  }
  const std::optional<MemberSpan> gap =
      options.leave_out.empty() ? std::nullopt : find_member(text, options.leave_out);
  // Decoded in place, in a copy: keys and strings are then views into it.
  const auto buffer = std::make_unique_for_overwrite<char[]>(text.size() + kJsonPadding);
  std::size_t size = text.copy(buffer.get(), gap ? gap->begin : text.size());
  if (gap) {
    size += text.substr(gap->end).copy(buffer.get() + size, text.size() - gap->end);
  }
  std::memset(buffer.get() + size, 0, kJsonPadding);
  Builder builder(options.max_depth, options.collect_duplicates && report != nullptr);
  JsonReader<Builder> reader(buffer.get(), size, builder);
  if (reader.read()) {
    if (report != nullptr) {
      report->duplicate_fields = builder.take_duplicates();
    }
    return builder.take();
  }
  if (builder.too_deep()) {
    return fail(Errc::kBadRequest, "exceeded max depth");
  }
  if (gap) {  // what is wrong is told of the whole text
    return parse(text, {options.max_depth, options.collect_duplicates, {}}, report);
  }
  std::string message = describe_json_error(text);
  if (message.empty()) {
    message = builder.too_large() ? "json: number out of range of type float64" : "invalid JSON";
  }
  return fail(Errc::kBadRequest, message);
}

}  // namespace kintsugi::krm
