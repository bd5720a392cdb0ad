#include "cmd/kintsugi/flags.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iterator>
#include <sstream>

#include "base/near_name.h"
#include "base/strings.h"

namespace kintsugi::cmd {
namespace {

namespace po = boost::program_options;

constexpr const char* kHelp = "help";
constexpr unsigned kLineLength = 100, kLeastHelpWidth = 58;  // columns

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

const Flag* find_flag(const FlagTable& table, std::string_view name) {
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) {
      if (flag.name == name) {
        return &flag;
      }
    }
  }
  return nullptr;
}

/// How the library is told what an option takes. Values stay text, the setters judge them.
class Takes : public po::value_semantic {
 public:
  explicit Takes(std::string argument) : argument_(std::move(argument)) {}

  [[nodiscard]] std::string name() const override { return argument_; }
  [[nodiscard]] unsigned min_tokens() const override { return argument_.empty() ? 0 : 1; }
  [[nodiscard]] unsigned max_tokens() const override { return 1; }
  [[nodiscard]] bool is_composing() const override { return true; }
  [[nodiscard]] bool is_required() const override { return false; }
  void parse(boost::any& /*store*/, const std::vector<std::string>& /*tokens*/,
             bool /*utf8*/) const override {}
  bool apply_default(boost::any& /*store*/) const override { return false; }
  void notify(const boost::any& /*store*/) const override {}

 private:
  std::string argument_;
};

void add_option(po::options_description& to, const std::string& names, const std::string& argument,
                const std::string& help) {
  to.add(boost::shared_ptr<po::option_description>(
      new po::option_description(names.c_str(), new Takes(argument), help.c_str())));
}

po::options_description described(const FlagTable& table) {
  po::options_description all(kLineLength, kLeastHelpWidth);
  for (const FlagGroup& group : table) {
    po::options_description options(group.title, kLineLength, kLeastHelpWidth);
    for (const Flag& flag : group.flags) {
      const bool is_short = flag.name.size() == 1;
      add_option(
          options, is_short ? flag.name + "," + flag.name : flag.name, flag.argument,
          flag.help + (flag.default_text.empty() ? "" : " (default " + flag.default_text + ")"));
    }
    all.add(options);
  }
  po::options_description rest("Help", kLineLength, kLeastHelpWidth);
  add_option(rest, "help,h", "", "this text");
  all.add(rest);
  return all;
}

/// What the library reads otherwise than kcp-front-proxy and this program always did: underscores
/// in names, blank values (`--name=`), `-v=4`, and that only `=` gives a switch a value.
std::vector<po::option> lex_name(const FlagTable& table, std::vector<std::string>& rest) {
  const std::string token = rest.front();
  const bool is_short = token.size() > 2 && token[0] == '-' && token[1] != '-' && token[2] == '=';
  if (!is_short && (token.size() < 3 || !token.starts_with("--"))) {
    return {};
  }
  const std::size_t equals = token.find('=');
  const std::size_t dashes = is_short ? 1 : 2;
  po::option out;
  out.string_key = normal(std::string_view(token).substr(
      dashes, equals == std::string::npos ? equals : equals - dashes));
  out.original_tokens = {token};
  const Flag* const flag = find_flag(table, out.string_key);
  rest.erase(rest.begin());
  if (equals != std::string::npos) {
    out.value = {token.substr(equals + 1)};
  } else if (flag != nullptr ? flag->argument.empty() : out.string_key == kHelp) {
    out.value = {"true"};
  } else if (flag == nullptr && !rest.empty() && !rest.front().starts_with('-')) {
    out.value = {rest.front()};
    rest.erase(rest.begin());
  }
  return {out};
}

Expected<std::vector<po::option>> lex(const FlagTable& table,
                                      const std::vector<std::string>& arguments) {
  using namespace po::command_line_style;  // allow_guessing is not among these
  constexpr int kStyle = allow_long | long_allow_adjacent | long_allow_next | allow_short |
                         allow_dash_for_short | short_allow_adjacent | short_allow_next;
  const po::options_description all = described(table);
  try {
    return po::command_line_parser(arguments)
        .options(all)
        .style(kStyle)
        .extra_style_parser(
            [&table](std::vector<std::string>& rest) { return lex_name(table, rest); })
        .allow_unregistered()
        .run()
        .options;
  } catch (const po::invalid_command_line_syntax& error) {
    return fail(Errc::kConfig, error.kind() == po::invalid_syntax::missing_parameter
                                   ? error.get_option_name() + " needs a value"
                                   : std::string(error.what()));
  } catch (const po::error& error) {
    return fail(Errc::kConfig, error.what());
  }
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

Expected<void> take_choice(std::string_view value, const std::vector<std::string>& known,
                           std::string& target) {
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    std::string names;
    for (auto name = std::next(known.begin()); name != known.end(); ++name) {
      names.append(names.empty() ? "" : ", ").append(*name);
    }
    return fail(Errc::kConfig, "\"" + std::string(value) + "\" is none of " + names);
  }
  target = value == known.front() ? known[1] : value;
  return {};
}

FlagTable without_setters(FlagTable table) {
  for (FlagGroup& group : table) {
    for (Flag& flag : group.flags) {
      flag.set = nullptr;
    }
  }
  return table;
}

Expected<ParsedFlags> parse_flags(const FlagTable& table, const std::vector<std::string>& arguments,
                                  UnknownFlags unknown) {
  ParsedFlags parsed;
  const auto lexed = lex(table, arguments);
  if (!lexed) {
    return fail(Errc::kConfig, std::string(lexed.error().message()));
  }
  if (std::any_of(lexed->begin(), lexed->end(),
                  [](const po::option& one) { return one.string_key == kHelp; })) {
    parsed.help = true;
    return parsed;
  }
  for (const po::option& one : *lexed) {
    if (one.string_key.empty()) {
      parsed.positional.push_back(one.value.front());
      continue;
    }
    const Flag* const flag = find_flag(table, one.string_key);
    if (flag == nullptr && unknown == UnknownFlags::kRefused) {
      return fail(Errc::kConfig, unknown_flag_text(one.string_key, table));
    }
    if (flag == nullptr) {
      parsed.unknown.push_back(one.string_key);
    } else if (auto result = flag->set(one.value.empty() ? "true" : one.value.front()); !result) {
      return fail(std::move(result.error()).at("--" + flag->name));
    }
  }
  return parsed;
}

std::string nearest_flag(std::string_view typed, const FlagTable& table) {
  std::vector<std::string> known = {kHelp};
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) {
      known.push_back(flag.name);
    }
  }
  return nearest_name(typed, known);
}

std::string unknown_flag_text(std::string_view name, const FlagTable& table) {
  if (name.starts_with('-')) {
    return "unknown option " + std::string(name);
  }
  const std::string near = nearest_flag(name, table);
  return "unknown option --" + std::string(name) +
         (near.empty() ? "" : "; did you mean --" + near + "?");
}

std::string help_text(const CommandAbout& about) {
  std::ostringstream text;
  text << "usage: " << about.usage << "\n\n" << about.description << "\n";
  po::options_description all = described(about.flags);
  text << all;
  return text.str();
}

}  // namespace kintsugi::cmd
