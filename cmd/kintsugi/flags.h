#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kintsugi::cmd {

/// One option of a subcommand. The table of them is what is parsed, what help shows and what shells
/// complete.
struct Flag {
  std::string name;      ///< without dashes; underscores in what users type equal dashes
  std::string argument;  ///< placeholder ("N", "FILE", "DIR", "serve|deny"); empty: a switch
  std::string default_text;
  std::string help;
  std::function<Expected<void>(std::string_view value)> set;
};
/// Options that stand together in help.
struct FlagGroup {
  std::string title;
  std::vector<Flag> flags;
};
using FlagTable = std::vector<FlagGroup>;

/// What a subcommand says of itself. Nobody calls the setters of its flags.
struct CommandAbout {
  std::string usage, description;
  std::vector<std::string> words;  ///< what may stand in the first place besides options
  FlagTable flags;
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

/// One of a few words, of which a switch without a value ("true") means the second.
/// @param known  "true" and the words.
[[nodiscard]] Expected<void> take_choice(std::string_view value,
                                         const std::vector<std::string>& known,
                                         std::string& target);

/// The table without its setters, which refer to options that end earlier.
[[nodiscard]] FlagTable without_setters(FlagTable table);

enum class UnknownFlags : std::uint8_t {
  kRefused,
  kKept,  ///< What follows one is its value, unless it begins with '-' or the value came with '='.
};
struct ParsedFlags {
  bool help = false;  ///< then nothing else was looked at
  std::vector<std::string> positional;
  std::vector<std::string> unknown;  ///< names, in their order, "-x" with the dash
};
/// `--name value`, `--name=value`, switches (`--name`, `--name=false`), names of one letter also as
/// `-v 4`, `-v4`, `-v=4`; `--` ends the options; `-h` and `--help` anywhere before. Nothing is
/// guessed from the beginning of a name. What follows an option that has a value is that value,
/// whatever it looks like.
/// @error kConfig "unknown option --foo", "--port needs a value", "--port: \"x\" is not a port".
[[nodiscard]] Expected<ParsedFlags> parse_flags(const FlagTable& table,
                                                const std::vector<std::string>& arguments,
                                                UnknownFlags unknown = UnknownFlags::kRefused);

/// nearest_name() among the options of a table, without dashes.
[[nodiscard]] std::string nearest_flag(std::string_view typed, const FlagTable& table);
/// "unknown option --foo", with "; did you mean --food?" where one is near.
[[nodiscard]] std::string unknown_flag_text(std::string_view name, const FlagTable& table);

/// Usage line, description and the options by group, each with its default.
[[nodiscard]] std::string help_text(const CommandAbout& about);

}  // namespace kintsugi::cmd
