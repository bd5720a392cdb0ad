#include <re2/re2.h>

#include <array>
#include <limits>

#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

constexpr std::int64_t kMostMemory = 1 << 20;            ///< of a pattern that is no literal
constexpr std::uint64_t kStepsPerInstruction = 16;       ///< of a program that is compiled
constexpr std::uint64_t kLargePatternSteps = 2'000'000;  ///< until it is found to be too large
constexpr std::uint64_t kStepsPerFound = 24;

/// The compiled pattern: that of the expression when it is a literal, else a new one.
std::shared_ptr<const re2::RE2> pattern(const Args& args) {
  if (args.site != nullptr && args.site->regex) {
    return args.site->regex;
  }
  re2::RE2::Options options(re2::RE2::Quiet);
  const std::string_view text = args[1].text();
  options.set_max_mem(kMostMemory);
  auto made = std::make_shared<const re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (args.steps != nullptr) {
    *args.steps += made->ok()
                       ? static_cast<std::uint64_t>(made->ProgramSize()) * kStepsPerInstruction
                   : made->error_code() == re2::RE2::ErrorPatternTooLarge ? kLargePatternSteps
                                                                          : 0;
  }
  return made;
}

/// Before a search, which is stopped once too much has been done.
void count_search(const Args& args, const re2::RE2& regex, std::size_t bytes) {
  if (args.steps != nullptr && regex.ok()) {
    *args.steps +=
        kStepsPerFound + pattern_work(bytes, static_cast<std::size_t>(regex.ProgramSize()));
  }
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

Value broken(const re2::RE2& regex) {
  return Value::error("error parsing regexp: " + regex.error());
}

Value matches(const Args& args) {
  const auto regex = pattern(args);
  count_search(args, *regex, args[0].text().size());
  return regex->ok() ? Value::boolean(re2::RE2::PartialMatch(piece(args[0].text()), *regex))
                     : broken(*regex);
}

Value find(const Args& args) {
  const auto regex = pattern(args);
  if (!regex->ok()) {
    return Value::error("Illegal regex: error parsing regexp: " + regex->error());
  }
  const re2::StringPiece text = piece(args[0].text());
  count_search(args, *regex, text.size());
  re2::StringPiece found;
  if (!regex->Match(text, 0, text.size(), re2::RE2::UNANCHORED, &found, 1)) {
    return Value::string("");
  }
  return Value::string(std::string(found.data(), found.size()));
}

Value find_all(const Args& args) {
  const auto regex = pattern(args);
  if (!regex->ok()) {
    return Value::error("Illegal regex: error parsing regexp: " + regex->error());
  }
  const re2::StringPiece text = piece(args[0].text());
  count_search(args, *regex, text.size());
  std::int64_t limit = args.count == 3 ? args[2].integer() : -1;
  if (limit < 0) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  std::vector<Value> out;
  std::size_t from = 0;
  const char* last_end = nullptr;
  while (from <= text.size() && static_cast<std::int64_t>(out.size()) < limit) {
    re2::StringPiece found;
    if (!regex->Match(text, from, text.size(), re2::RE2::UNANCHORED, &found, 1)) {
      break;
    }
    const auto end = static_cast<std::size_t>(found.data() + found.size() - text.data());
    // Like Go: an empty match right behind the previous one does not count.
    if (!found.empty() || found.data() != last_end) {
      out.push_back(Value::string(std::string(found.data(), found.size())));
    }
    last_end = found.data() + found.size();
    from = end;
    if (found.empty()) {
      ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80U) {
        ++from;
      }
    }
  }
  if (args.steps != nullptr) {
    *args.steps += out.size() * kStepsPerFound;
  }
  return Value::list(std::move(out));
}

constexpr auto kRows = std::array{
    OverloadRow{"matches", "matches", "(string, string) -> bool", matches},
    OverloadRow{"matches", "matches_string", "string.(string) -> bool", matches},
    OverloadRow{"find", "string_find_string", "string.(string) -> string", find},
    OverloadRow{"findAll", "string_find_all_string", "string.(string) -> list(string)", find_all},
    OverloadRow{"findAll", "string_find_all_string_int", "string.(string, int) -> list(string)",
                find_all},
};

}  // namespace

std::span<const OverloadRow> regex_rows() { return kRows; }

}  // namespace kintsugi::cel
