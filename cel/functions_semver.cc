#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "cel/internal/functions.h"
#include "krm/go_text.h"

namespace kintsugi::cel {

namespace {

using Texts = std::vector<std::string_view>;

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789";

struct PreRelease {
  std::string text;  ///< "" of numbers
  std::uint64_t number = 0;
  bool numeric = false;
};

struct Version {
  std::array<std::uint64_t, 3> numbers{};
  std::vector<PreRelease> pre;
};

/// Numbers come before texts.
int compare(const PreRelease& a, const PreRelease& b) {
  if (a.numeric != b.numeric) {
    return a.numeric ? -1 : 1;
  }
  if (a.numeric) {
    return a.number < b.number ? -1 : a.number == b.number ? 0 : 1;
  }
  return a.text < b.text ? -1 : a.text == b.text ? 0 : 1;
}

/// Build data does not count; a pre-release comes before its release.
int compare(const Version& a, const Version& b) {
  if (a.numbers != b.numbers) {
    return a.numbers < b.numbers ? -1 : 1;
  }
  if (a.pre.empty() || b.pre.empty()) {
    return a.pre.empty() == b.pre.empty() ? 0 : a.pre.empty() ? 1 : -1;
  }
  for (std::size_t i = 0; i < std::min(a.pre.size(), b.pre.size()); ++i) {
    if (const int order = compare(a.pre[i], b.pre[i]); order != 0) {
      return order;
    }
  }
  return a.pre.size() < b.pre.size() ? -1 : a.pre.size() == b.pre.size() ? 0 : 1;
}

struct Semver final : Opaque {
  explicit Semver(Version value) : Opaque("kubernetes.Semver"), version(std::move(value)) {}
  [[nodiscard]] bool equals(const Opaque& other) const override {
    return compare(version, static_cast<const Semver&>(other).version) == 0;
  }
  Version version;
};

const Version& version(const Value& value) {
  return static_cast<const Semver&>(*value.opaque()).version;
}

/// Up to `most` parts; the last one has the rest.
Texts split(std::string_view text, char separator, std::size_t most) {
  Texts out;
  for (;;) {
    const std::size_t end = out.size() + 1 < most ? text.find(separator) : text.npos;
    out.push_back(text.substr(0, end));
    if (end == text.npos) {
      return out;
    }
    text.remove_prefix(end + 1);
  }
}

bool only(std::string_view text, std::string_view set) {
  return text.find_first_not_of(set) == text.npos;
}

/// Reads versions in the words of github.com/blang/semver/v4.
class Reader {
 public:
  bool read(std::string_view text, Version& out) {
    if (text.empty()) {
      return refuse("Version string empty");
    }
    const Texts parts = split(text, '.', 3);
    if (parts.size() != 3) {
      return refuse("No Major.Minor.Patch elements found");
    }
    std::string_view patch = parts[2];
    const std::string_view build = cut(patch, '+');
    const std::string_view pre = cut(patch, '-');
    if (!number(parts[0], "Major", "major", out.numbers[0]) ||
        !number(parts[1], "Minor", "minor", out.numbers[1]) ||
        !number(patch, "Patch", "patch", out.numbers[2])) {
      return false;
    }
    for (const std::string_view each : pre.data() == nullptr ? Texts() : split(pre, '.', kAll)) {
      if (!pre_release(each, out.pre)) {
        return false;
      }
    }
    for (const std::string_view each :
         build.data() == nullptr ? Texts() : split(build, '.', kAll)) {
      if (each.empty()) {
        return refuse("Build meta data is empty");
      }
      if (!only(each, kLetters)) {
        return refuse("Invalid character(s) found in build meta data " + krm::go_quote(each));
      }
    }
    return true;
  }

  bool refuse(std::string why) {
    error = std::move(why);
    return false;
  }

  std::string error;

 private:
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

  /// What follows the mark, which goes from the text with it; no data without one.
  static std::string_view cut(std::string_view& text, char mark) {
    const std::size_t at = text.find(mark);
    if (at == text.npos) {
      return {};
    }
    const std::string_view rest = text.substr(at + 1);
    text = text.substr(0, at);
    return rest.data() == nullptr ? std::string_view("") : rest;
  }

  bool parse(std::string_view text, std::uint64_t& out) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (fault == std::errc() && end == text.data() + text.size()) {
      return true;
    }
    return refuse("strconv.ParseUint: parsing " + krm::go_quote(text) +
                  (text.empty() ? ": invalid syntax" : ": value out of range"));
  }

  bool number(std::string_view text, std::string_view title, std::string_view name,
              std::uint64_t& out) {
    if (!only(text, kDigits)) {
      return refuse("Invalid character(s) found in " + std::string(name) + " number " +
                    krm::go_quote(text));
    }
    if (text.size() > 1 && text[0] == '0') {
      return refuse(std::string(title) + " number must not contain leading zeroes " +
                    krm::go_quote(text));
    }
    return parse(text, out);
  }

  bool pre_release(std::string_view text, std::vector<PreRelease>& out) {
    if (text.empty()) {
      return refuse("Prerelease is empty");
    }
    PreRelease made;
    if (only(text, kDigits)) {
      if (text.size() > 1 && text[0] == '0') {
        return refuse("Numeric PreRelease version must not contain leading zeroes " +
                      krm::go_quote(text));
      }
      made.numeric = true;
      if (!parse(text, made.number)) {
        return false;
      }
    } else if (only(text, kLetters)) {
      made.text = text;
    } else {
      return refuse("Invalid character(s) found in prerelease " + krm::go_quote(text));
    }
    out.push_back(std::move(made));
    return true;
  }
};

/// Without "v" and leading zeros, with three numbers. False for a short one with more behind it.
bool normalize(std::string_view text, std::string& out) {
  if (text.starts_with('v')) {
    text.remove_prefix(1);
  }
  std::vector<std::string> parts;
  for (std::string_view part : split(text, '.', 3)) {
    if (part.size() > 1) {
      const std::size_t digits = part.find_first_not_of('0');
      part = digits == part.npos ? std::string_view() : part.substr(digits);
      const bool number = !part.empty() && kDigits.find(part[0]) != kDigits.npos;
      parts.push_back((number ? "" : "0") + std::string(part));
    } else {
      parts.emplace_back(part);
    }
  }
  if (parts.size() < 3 && parts.back().find_first_of("+-") != std::string::npos) {
    return false;
  }
  parts.resize(std::max<std::size_t>(parts.size(), 3), "0");
  out = parts[0] + '.' + parts[1] + '.' + parts[2];
  return true;
}

bool read(const Args& args, Version& out, std::string& error) {
  Reader reader;
  std::string text(args[0].text());
  bool fine = true;
  if (args.count == 2 && args[1].is_true() && !normalize(args[0].text(), text)) {
    fine = reader.refuse("short version cannot contain PreRelease/Build meta data");
  }
  fine = fine && reader.read(text, out);
  error = std::move(reader.error);
  return fine;
}

Value semver(const Args& args) {
  Version made;
  std::string error;
  return read(args, made, error) ? Value::opaque(std::make_shared<const Semver>(std::move(made)))
                                 : Value::error(std::move(error));
}
Value is_semver(const Args& args) {
  Version made;
  std::string error;
  return Value::boolean(read(args, made, error));
}
template <std::size_t kPlace>
Value part(const Args& args) {
  return Value::integer(static_cast<std::int64_t>(version(args[0]).numbers[kPlace]));
}
Value order(const Args& args) {
  return Value::integer(compare(version(args[0]), version(args[1])));
}
Value greater(const Args& args) {
  return Value::boolean(compare(version(args[0]), version(args[1])) > 0);
}
Value less(const Args& args) {
  return Value::boolean(compare(version(args[0]), version(args[1])) < 0);
}

constexpr auto kRows = std::array{
    OverloadRow{"semver", "string_to_semver", "(string) -> #semver", semver},
    OverloadRow{"semver", "string_bool_to_semver", "(string, bool) -> #semver", semver},
    OverloadRow{"isSemver", "is_semver_string", "(string) -> bool", is_semver},
    OverloadRow{"isSemver", "is_semver_string_bool", "(string, bool) -> bool", is_semver},
    OverloadRow{"isGreaterThan", "semver_is_greater_than", "#semver.(#semver) -> bool", greater},
    OverloadRow{"isLessThan", "semver_is_less_than", "#semver.(#semver) -> bool", less},
    OverloadRow{"compareTo", "semver_compare_to", "#semver.(#semver) -> int", order},
    OverloadRow{"major", "semver_major", "#semver.() -> int", part<0>},
    OverloadRow{"minor", "semver_minor", "#semver.() -> int", part<1>},
    OverloadRow{"patch", "semver_patch", "#semver.() -> int", part<2>},
};

}  // namespace

std::span<const OverloadRow> semver_rows() { return kRows; }

}  // namespace kintsugi::cel
