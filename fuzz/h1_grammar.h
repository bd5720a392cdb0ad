#pragma once

#include <cstddef>
#include <string_view>

#include "base/strings.h"
#include "http/wire.h"

/// Only for h1_old_parser.cc: the grammar that Beast demands and the old parser did not, written
/// anew.
namespace kintsugi::fuzz {

using http::is_token;

/// "a, b , ,c"
inline bool is_token_list(std::string_view list) {
  for (bool more = true; more;) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trim(list.substr(0, comma));
    if (!element.empty() && !is_token(element)) {
      return false;
    }
    more = comma != std::string_view::npos;
    list.remove_prefix(more ? comma + 1 : list.size());
  }
  return true;
}

/// What may stand after the first semicolon of a chunk's line: names with or without a value, apart
/// by semicolons, blanks between but none at the end. Source: RFC 9112, section 7.1.1.
inline bool is_extension(std::string_view text) {
  const auto blanks = [&text] {
    const std::size_t before = text.size();
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
      text.remove_prefix(1);
    }
    return before != text.size();
  };
  const auto token = [&text] {
    std::size_t size = 0;
    while (size < text.size() && is_token(text.substr(size, 1))) {
      ++size;
    }
    text.remove_prefix(size);
    return size > 0;
  };
  const auto quoted = [&text] {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '"') {
        text.remove_prefix(i + 1);
        return true;
      }
      i += text[i] == '\\' ? 1 : 0;
    }
    return false;
  };
  for (;;) {
    (void)blanks();
    if (!token()) {
      return false;
    }
    bool blank = blanks();
    if (!text.empty() && text.front() == '=') {
      text.remove_prefix(1);
      (void)blanks();
      if (!(text.starts_with('"') ? quoted() : token())) {
        return false;
      }
      blank = blanks();
    }
    if (text.empty()) {
      return !blank;
    }
    if (text.front() != ';') {
      return false;
    }
    text.remove_prefix(1);
  }
}

}  // namespace kintsugi::fuzz
