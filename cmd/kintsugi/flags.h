#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kintsugi::cmd {

/// One option of a subcommand. The table of them is the parser's input and the help text's source.
struct Flag {
  std::string name;      ///< without dashes; underscores in what users type equal dashes
  std::string argument;  ///< placeholder ("N", "DIR"); empty: a switch
  std::string default_text;
  std::string help;
  std::function<Expected<void>(std::string_view value)> set;
};

/// @{ Setters for the usual types; errors name the value.
[[nodiscard]] std::function<Expected<void>(std::string_view)> into(std::string& target);
[[nodiscard]] std::function<Expected<void>(std::string_view)> into(std::uint16_t& target);
[[nodiscard]] std::function<Expected<void>(std::string_view)> into(std::uint32_t& target);
[[nodiscard]] std::function<Expected<void>(std::string_view)> into(bool& target);
/// Comma-separated, may be given several times.
[[nodiscard]] std::function<Expected<void>(std::string_view)> into(
    std::vector<std::string>& target);
/// @}

struct ParsedFlags {
  bool help = false;
  std::vector<std::string> positional;
};
/// Told the name of an option that is not in the table; what follows it is skipped as its value,
/// unless it begins with '-' or the value came with '='.
using OnUnknownFlag = std::function<void(const std::string& name)>;
/// `--name value`, `--name=value`, switches, `--` ends the options, `-h` and `--help`.
/// @param on_unknown  empty: an unknown option is an error.
/// @error kConfig "unknown option --foo", "--port needs a value", "--port: \"x\" is not a port".
[[nodiscard]] Expected<ParsedFlags> parse_flags(const std::vector<Flag>& flags,
                                                const std::vector<std::string>& arguments,
                                                const OnUnknownFlag& on_unknown = {});

/// Usage line, description and one line per option with its default.
[[nodiscard]] std::string help_text(std::string_view usage, std::string_view description,
                                    const std::vector<Flag>& flags);

}  // namespace kintsugi::cmd
