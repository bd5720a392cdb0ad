#include "base/open_metrics.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/strings.h"

namespace kintsugi {
namespace {

constexpr std::string_view kTotal = "_total", kType = "# TYPE ", kHelp = "# HELP ";

/// A comment of a family: its name, and the rest.
struct About {
  std::string_view name, rest;
};
About about_of(std::string_view line) {
  const std::string_view text = line.substr(kType.size());
  const std::size_t blank = std::min(text.find(' '), text.size());
  return {text.substr(0, blank), text.substr(std::min(blank + 1, text.size()))};
}

std::set<std::string_view> names_in(std::string_view page) {
  std::set<std::string_view> out;
  for (const std::string_view line : split(page, '\n')) {
    if (line.starts_with(kType)) {
      out.insert(about_of(line).name);
    }
  }
  return out;
}

/// Name and type there.
std::pair<std::string_view, std::string_view> family_of(const About& about,
                                                        const std::set<std::string_view>& names) {
  if (about.rest == "untyped") {
    return {about.name, "unknown"};
  }
  if (about.rest != "counter") {
    return {about.name, about.rest};
  }
  const std::string_view shorter = about.name.substr(0, about.name.size() - kTotal.size());
  const bool is_total = about.name.ends_with(kTotal) && !shorter.empty();
  return is_total && !names.contains(shorter) ? std::pair(shorter, std::string_view("counter"))
                                              : std::pair(about.name, std::string_view("unknown"));
}

/// There a quote is escaped, too.
std::string escaped_help(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '"' ? "\\\"" : std::string_view(&c, 1);
  }
  return out;
}

}  // namespace

std::string open_metrics_text(std::string_view page) {
  const std::set<std::string_view> names = names_in(page);
  std::string out;
  out.reserve(page.size() + page.size() / 16);
  About help;
  const auto add = [&out](std::string_view what, std::string_view name, std::string_view text) {
    out.append("# ").append(what).append(" ").append(name).append(" ").append(text).append("\n");
  };
  for (const std::string_view line : split(page, '\n')) {
    if (line.starts_with(kHelp)) {
      help = about_of(line);
    } else if (line.starts_with(kType)) {
      const About about = about_of(line);
      const auto [name, type] = family_of(about, names);
      add("TYPE", name, type);
      for (const std::string_view unit : {"seconds", "bytes"}) {
        if (name.size() > unit.size() && name.ends_with(unit) &&
            name[name.size() - unit.size() - 1] == '_') {
          add("UNIT", name, unit);
        }
      }
      if (help.name == about.name) {
        add("HELP", name, escaped_help(help.rest));
      }
    } else if (!line.empty() && line.front() != '#') {
      out.append(line).append("\n");
    }
  }
  return out + "# EOF\n";
}

}  // namespace kintsugi
