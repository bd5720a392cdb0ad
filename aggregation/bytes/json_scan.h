#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Finding the ends of JSON values without parsing them (AGG-1401,
/// PERF-233). Only braces, brackets and strings are looked at; what is between them is
/// somebody else's to check.
namespace kintsugi::aggregation {

/// Follows one JSON object or array across pieces of bytes. 64 bytes at a time; a block that cannot
/// hold the end costs a few instructions whatever is in it.
class ValueScan {
 public:
  /// How many bytes of `text` belong to the value; all of them unless done() holds afterwards. The
  /// first byte that is ever fed has to be the opening one.
  [[nodiscard]] std::size_t feed(std::string_view text) noexcept;
  [[nodiscard]] bool done() const noexcept { return begun_ && depth_ == 0; }
  /// Inside the value.
  [[nodiscard]] bool running() const noexcept { return begun_ && depth_ > 0; }
  void reset() noexcept { *this = ValueScan(); }

 private:
  std::uint64_t depth_ = 0;
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte is taken literally
};

/// End of the value that begins at text[begin] (any kind of value; npos: it does not end in text).
[[nodiscard]] std::size_t value_end(std::string_view text, std::size_t begin) noexcept;

/// Goes through the members of an object that is complete in `text`. Keys and values are spans of
/// it, values without surrounding space.
class MemberWalk {
 public:
  /// @param object  from '{' to '}'.
  explicit MemberWalk(std::string_view object) noexcept;
  struct Member {
    std::string_view key;    ///< between the quotes, as it stands there
    std::string_view value;  ///< raw
  };
  /// nullopt at the end, and where the text is no object (broken() tells).
  [[nodiscard]] std::optional<Member> next() noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  void skip_space() noexcept;
  std::optional<Member> stop(bool broken) noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
  bool first_ = true;
  bool broken_ = false;
};

/// Whether a raw key means `name`; escapes are understood.
[[nodiscard]] bool key_is(std::string_view raw_key, std::string_view name);
/// The text of a raw JSON string value with its quotes; nullopt when it is none.
[[nodiscard]] std::optional<std::string> string_value(std::string_view raw);
/// The same without a copy where the string has no escapes; nullopt then, or when it is none.
[[nodiscard]] std::optional<std::string_view> plain_string(std::string_view raw) noexcept;

}  // namespace kintsugi::aggregation
