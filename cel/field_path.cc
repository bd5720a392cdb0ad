#include "cel/internal/field_path.h"

#include <algorithm>

namespace kintsugi::cel {

namespace {

/// The text between single quotes, escapes resolved; nullopt for an unknown escape.
std::optional<std::string> unquote(std::string_view text) {
  static constexpr std::string_view kFrom = "abfnrtv'\\";
  static constexpr std::string_view kTo = "\a\b\f\n\r\t\v'\\";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const std::size_t place = i + 1 < text.size() ? kFrom.find(text[i + 1]) : kFrom.npos;
    if (place == kFrom.npos) {
      return std::nullopt;
    }
    out += kTo[place];
    ++i;
  }
  return out;
}

}  // namespace

std::optional<std::string> field_path(std::string_view text, const krm::Schema& schema) {
  std::string out;
  const krm::Schema* here = &schema;
  while (!text.empty()) {
    std::string name;
    if (text[0] == '.') {
      text.remove_prefix(1);
      const std::size_t end = std::min(text.find_first_of(".[]"), text.size());
      name = text.substr(0, end);
      text.remove_prefix(end);
      if (name.empty()) {
        return std::nullopt;
      }
    } else if (text.starts_with("['")) {
      std::size_t end = 2;
      while (end < text.size() && (text[end] != '\'' || text[end - 1] == '\\')) {
        ++end;
      }
      if (text.substr(std::min(end, text.size()), 2) != "']") {
        return std::nullopt;
      }
      const auto unquoted = unquote(text.substr(2, end - 2));
      if (!unquoted) {
        return std::nullopt;
      }
      name = *unquoted;
      text.remove_prefix(end + 2);
    } else {
      return std::nullopt;
    }
    if (const krm::SchemaProperty* property = here->property(name)) {
      out += (out.empty() ? "" : ".") + name;
      here = property->schema.get();
    } else if (here->properties.empty() && here->additional) {
      out += '[' + name + ']';
      here = here->additional.get();
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace kintsugi::cel
