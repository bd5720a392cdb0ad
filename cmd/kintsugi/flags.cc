#include "cmd/kintsugi/flags.h"

#include <algorithm>

#include "base/strings.h"

namespace kintsugi::cmd {
namespace {

constexpr std::size_t kHelpColumn = 28;

template <class Integer>
std::function<Expected<void>(std::string_view)> into_number(Integer& target, const char* what) {
  return [&target, what](std::string_view value) -> Expected<void> {
    const auto number = parse_decimal<Integer>(value);
    if (!number) {
      return fail(Errc::kConfig, "\"" + std::string(value) + "\" is not a " + what);
    }
    target = *number;
    return {};
  };
}

std::string normal(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

}  // namespace

std::function<Expected<void>(std::string_view)> into(std::string& target) {
  return [&target](std::string_view value) -> Expected<void> {
    target = value;
    return {};
  };
}

std::function<Expected<void>(std::string_view)> into(std::uint16_t& target) {
  return into_number(target, "port");
}
std::function<Expected<void>(std::string_view)> into(std::uint32_t& target) {
  return into_number(target, "number");
}

std::function<Expected<void>(std::string_view)> into(bool& target) {
  return [&target](std::string_view value) -> Expected<void> {
    if (value != "true" && value != "false") {
      return fail(Errc::kConfig, "\"" + std::string(value) + "\" is neither true nor false");
    }
    target = value == "true";
    return {};
  };
}

std::function<Expected<void>(std::string_view)> into(std::vector<std::string>& target) {
  return [&target, first = true](std::string_view value) mutable -> Expected<void> {
    if (first) {
      target.clear();
      first = false;
    }
    for (const std::string_view part : split(value, ',')) {
      if (!part.empty()) {
        target.emplace_back(part);
      }
    }
    return {};
  };
}

Expected<ParsedFlags> parse_flags(const std::vector<Flag>& flags,
                                  const std::vector<std::string>& arguments,
                                  const OnUnknownFlag& on_unknown) {
  ParsedFlags parsed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-h" || argument == "--help") {
      parsed.help = true;
      continue;
    }
    if (argument == "--") {
      parsed.positional.insert(parsed.positional.end(),
                               arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                               arguments.end());
      break;
    }
    if (!argument.starts_with("--")) {
      parsed.positional.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name =
        normal(argument.substr(2, equals == std::string::npos ? equals : equals - 2));
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const Flag& one) { return one.name == name; });
    if (flag == flags.end() && on_unknown) {
      on_unknown(name);
      const bool has_value = equals == std::string::npos && i + 1 < arguments.size() &&
                             !arguments[i + 1].starts_with('-');
      i += has_value ? 1 : 0;
      continue;
    }
    if (flag == flags.end()) {
      return fail(Errc::kConfig, "unknown option --" + name);
    }
    std::string value = "true";
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (!flag->argument.empty()) {
      if (i + 1 >= arguments.size()) {
        return fail(Errc::kConfig, "--" + name + " needs a value");
      }
      value = arguments[++i];
    }
    auto result = flag->set(value);
    if (!result) {
      return fail(std::move(result.error()).at("--" + name));
    }
  }
  return parsed;
}

std::string help_text(std::string_view usage, std::string_view description,
                      const std::vector<Flag>& flags) {
  std::string text =
      "usage: " + std::string(usage) + "\n\n" + std::string(description) + "\n\noptions:\n";
  for (const Flag& flag : flags) {
    std::string left = "  --" + flag.name + (flag.argument.empty() ? "" : " " + flag.argument);
    left += left.size() < kHelpColumn ? std::string(kHelpColumn - left.size(), ' ')
                                      : "\n" + std::string(kHelpColumn, ' ');
    text += left + flag.help;
    if (!flag.default_text.empty()) {
      text += " (default " + flag.default_text + ")";
    }
    text += "\n";
  }
  text += "  --help" + std::string(kHelpColumn - 8, ' ') + "this text\n";
  return text;
}

}  // namespace kintsugi::cmd
