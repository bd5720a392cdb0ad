#include "cmd/kintsugi/flags.h"

#include <gtest/gtest.h>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/completion.h"
#include "cmd/kintsugi/manual_pages.h"

namespace kintsugi::cmd {
namespace {

using Texts = std::vector<std::string>;

struct Options {
  std::string config;
  bool validate = false;
  std::uint16_t port = 0;
  std::uint32_t v = 0;
  Texts names = {"default"};
};

FlagTable table_of(Options& options) {
  return {{"First",
           {{"config", "FILE", "", "where it stands", into(options.config)},
            {"validate", "", "", "checks", into(options.validate)}}},
          {"Second",
           {{"port", "PORT", "6443", "where it listens", into(options.port)},
            {"v", "N", "2", "how much is said", into(options.v)},
            {"some-names", "LIST", "", "names", into(options.names)}}}};
}

struct Parsed {
  Options options;
  Texts positional, unknown;
  bool help = false;
  std::string fault;
};

Parsed parsed(const Texts& arguments, UnknownFlags unknown = UnknownFlags::kRefused) {
  Parsed out;
  auto result = parse_flags(table_of(out.options), arguments, unknown);
  if (result) {
    out.positional = result->positional;
    out.unknown = result->unknown;
    out.help = result->help;
  } else {
    out.fault = result.error().message();
  }
  return out;
}

TEST(Flags, WhenSpelledInEveryForm_TheyAreTaken) {
  EXPECT_EQ(parsed({"--port", "1"}).options.port, 1);
  EXPECT_EQ(parsed({"--port=2"}).options.port, 2);
  EXPECT_EQ(parsed({"--port=2", "--port=3"}).options.port, 3);
  EXPECT_TRUE(parsed({"--validate"}).options.validate);
  EXPECT_FALSE(parsed({"--validate", "--validate=false"}).options.validate);
  EXPECT_EQ(parsed({"--config="}).options.config, "");
  EXPECT_EQ(parsed({"--config="}).fault, "");
  EXPECT_EQ(parsed({"--config=a=b"}).options.config, "a=b");
  EXPECT_EQ(parsed({"--config", "-"}).options.config, "-");
  EXPECT_EQ(parsed({"--config", "--validate"}).options.config, "--validate");
  EXPECT_EQ(parsed({"--some_names=a,b", "--some-names", "c"}).options.names,
            (Texts{"a", "b", "c"}));
  EXPECT_EQ(parsed({"--config", "--under_score"}).options.config, "--under_score");
  for (const Texts& verbose : {Texts{"-v", "4"}, Texts{"-v4"}, Texts{"-v=4"}, Texts{"--v=4"}}) {
    EXPECT_EQ(parsed(verbose).options.v, 4U) << verbose.front();
  }
}

TEST(Flags, WhenASwitchIsFollowedByAWord_ThatIsNotItsValue) {
  const Parsed line = parsed({"--validate", "word", "-", "--", "--port", "x"});
  EXPECT_TRUE(line.options.validate);
  EXPECT_EQ(line.positional, (Texts{"word", "-", "--port", "x"}));
}

TEST(Flags, WhenSomethingIsWrong_OneLineNamesIt) {
  EXPECT_EQ(parsed({"--port"}).fault, "--port needs a value");
  EXPECT_EQ(parsed({"-v"}).fault, "--v needs a value");
  EXPECT_EQ(parsed({"--port=x"}).fault, "--port: \"x\" is not a port");
  EXPECT_EQ(parsed({"--validate=maybe"}).fault, "--validate: \"maybe\" is neither true nor false");
  EXPECT_EQ(parsed({"--foo"}).fault, "unknown option --foo");
  EXPECT_EQ(parsed({"-x"}).fault, "unknown option -x");
}

TEST(Flags, WhenANameIsMistyped_NothingIsGuessedAndTheNearestIsNamed) {
  for (const char* typed : {"--validat", "--vaildate", "--validated", "--valid", "--val=true"}) {
    const Parsed line = parsed({typed});
    EXPECT_FALSE(line.options.validate) << typed;
    EXPECT_TRUE(line.fault.ends_with("; did you mean --validate?")) << line.fault;
  }
  EXPECT_EQ(parsed({"--prot", "1"}).fault, "unknown option --prot; did you mean --port?");
  EXPECT_EQ(parsed({"--some-name", "1"}).fault,
            "unknown option --some-name; did you mean --some-names?");
  EXPECT_EQ(parsed({"--helo"}).fault, "unknown option --helo; did you mean --help?");
  EXPECT_EQ(parsed({"--x"}).fault, "unknown option --x");
  EXPECT_EQ(parsed({"--" + std::string(100'000, 'a')}).fault.size(), 100'017U);
}

TEST(Flags, WhenUnknownOnesAreKept_TheirValuesAreSkipped) {
  const Parsed line =
      parsed({"--foo=1", "--bar", "value", "--baz", "--port=7", "--qux", "--", "word"},
             UnknownFlags::kKept);
  EXPECT_EQ(line.unknown, (Texts{"foo", "bar", "baz", "qux"}));
  EXPECT_EQ(line.positional, Texts{"word"});
  EXPECT_EQ(line.options.port, 7);
}

TEST(Flags, WhenHelpIsAskedForAnywhere_NothingElseIsLookedAt) {
  EXPECT_TRUE(parsed({"--port=x", "--foo", "-h"}).help);
  EXPECT_TRUE(parsed({"--help", "--port=x"}).help);
  EXPECT_FALSE(parsed({"--", "--help"}).help);
}

TEST(Flags, WhenHelpIsShown_EveryOptionStandsInItsGroup) {
  Options options;
  const std::string text = help_text({"kintsugi x", "Does x.", {}, table_of(options)});
  EXPECT_TRUE(text.starts_with("usage: kintsugi x\n\nDoes x.\n\nFirst:\n  --config FILE")) << text;
  EXPECT_NE(text.find("where it listens (default 6443)"), std::string::npos) << text;
  EXPECT_LT(text.find("--validate"), text.find("Second:"));
  EXPECT_LT(text.find("Second:"), text.find("--some-names LIST"));
  EXPECT_NE(text.find("-h [ --help ]"), std::string::npos) << text;
}

TEST(Flags, WhenEveryCommandIsAsked_OP_T101_ItsHelpCompletionsAndManualNameEveryOptionOnce) {
  const std::string bash = bash_completion(), zsh = zsh_completion(), fish = fish_completion();
  for (const Command& command : commands()) {
    const CommandAbout about = command.about();
    const std::string help = help_text(about);
    EXPECT_TRUE(help.starts_with("usage: kintsugi " + std::string(command.name))) << help;
    Texts names;
    for (const FlagGroup& group : about.flags) {
      EXPECT_NE(help.find("\n" + group.title + ":\n"), std::string::npos) << group.title;
      for (const Flag& flag : group.flags) {
        EXPECT_EQ(std::count(names.begin(), names.end(), flag.name), 0) << flag.name;
        EXPECT_FALSE(flag.help.empty()) << flag.name;
        EXPECT_FALSE(flag.set) << flag.name;
        EXPECT_NE(help.find("--" + flag.name), std::string::npos) << flag.name;
        EXPECT_NE(bash.find(" --" + flag.name), std::string::npos) << flag.name;
        EXPECT_NE(zsh.find("'*--" + flag.name), std::string::npos) << flag.name;
        if (command.help != nullptr) {
          const bool is_short = flag.name.size() == 1;
          EXPECT_NE(fish.find("__fish_seen_subcommand_from " + std::string(command.name) + "'" +
                              (is_short ? " -s " : " -l ") + flag.name + " "),
                    std::string::npos)
              << flag.name;
          const std::string page = manual_page(command, build_data());
          std::string shown = (is_short ? "-" : "--") + flag.name;
          for (std::size_t at = 0; (at = shown.find('-', at)) != std::string::npos; at += 2) {
            shown.insert(at, "\\");
          }
          EXPECT_NE(page.find(".TP\n\\fB" + shown + "\\fR"), std::string::npos) << page;
        }
        names.push_back(flag.name);
      }
    }
    if (command.help == nullptr) {
      EXPECT_EQ(bash.find(command.name), std::string::npos);
      continue;
    }
    EXPECT_NE(bash.find("    " + std::string(command.name) + ") COMPREPLY"), std::string::npos);
    EXPECT_NE(zsh.find("'" + std::string(command.name) + ":"), std::string::npos);
  }
}

}  // namespace
}  // namespace kintsugi::cmd
