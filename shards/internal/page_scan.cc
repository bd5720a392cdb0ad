#include "shards/internal/page_scan.h"

#include <array>
#include <cstddef>

namespace kintsugi::shards {
namespace {

constexpr auto kStructural = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']', ',', ':'}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

/// Where the string that opens at `open` closes; npos: nowhere.
std::size_t end_of_string(std::string_view text, std::size_t open) noexcept {
  for (std::size_t at = text.find('"', open + 1); at != std::string_view::npos;
       at = text.find('"', at + 1)) {
    std::size_t slashes = 0;
    while (text[at - 1 - slashes] == '\\') {
      ++slashes;
    }
    if (slashes % 2 == 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

std::string_view strip(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::optional<PageText> scan_page(std::string_view body) {
  PageText page;
  std::size_t depth = 0;
  bool named = false;       // the last string of depth 1 is "items"
  bool value_next = false;  // its colon has come
  bool inside = false;      // between the brackets
  bool found = false;
  std::size_t item = 0;    // where the present one begins
  std::size_t copied = 0;  // of the body into the frame
  const auto take_item = [&](std::size_t end, bool last) {
    const std::string_view text = strip(body.substr(item, end - item));
    if (text.empty() && last && page.items.empty()) {
      return true;  // no items
    }
    page.items.push_back(text);
    return !text.empty();
  };
  for (std::size_t at = 0; at < body.size(); ++at) {
    const char c = body[at];
    if (!kStructural[static_cast<unsigned char>(c)]) {
      continue;
    }
    if (c == '"') {
      const std::size_t end = end_of_string(body, at);
      if (end == std::string_view::npos) {
        return std::nullopt;
      }
      named = depth == 1 && body.substr(at + 1, end - at - 1) == "items";
      at = end;
      continue;
    }
    if (c == ':') {
      value_next = depth == 1 && named;
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
      if (c == '[' && depth == 2 && value_next) {
        if (found) {
          return std::nullopt;
        }
        found = inside = true;
        item = at + 1;
        page.frame.append(body, copied, at + 1 - copied);
      }
      value_next = false;
      continue;
    }
    if (c == ',') {
      if (inside && depth == 2) {
        if (!take_item(at, false)) {
          return std::nullopt;
        }
        item = at + 1;
      }
      value_next = false;
      continue;
    }
    if (depth == 0) {
      return std::nullopt;
    }
    if (inside && depth == 2) {
      if (c != ']' || !take_item(at, true)) {
        return std::nullopt;
      }
      inside = false;
      copied = at;
    }
    --depth;
    if (depth == 0 && !strip(body.substr(at + 1)).empty()) {
      return std::nullopt;
    }
  }
  if (depth != 0) {
    return std::nullopt;
  }
  page.frame.append(body, copied, std::string_view::npos);
  return page;
}

bool names_missing_shard(std::string_view warning) noexcept {
  return warning.substr(0, 4) == "299 " &&
         (warning.find("lacks shard") != std::string_view::npos ||
          warning.find("missing shard") != std::string_view::npos);
}

}  // namespace kintsugi::shards
