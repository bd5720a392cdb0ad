#include "cmd/kintsugi/completion.h"

#include <cstdio>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/commands.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kBashHead =
    R"(# bash completion of kintsugi; in ~/.bashrc:  source <(kintsugi completion bash)
_kintsugi() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  if [[ $cur == "=" ]]; then
    cur=""
  elif [[ $prev == "=" && COMP_CWORD -gt 1 ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
  if [[ ${COMP_WORDS[0]##*/} == kcp-front-proxy ]]; then
    command=proxy
  elif [[ $COMP_CWORD -eq 1 ]]; then
)";
constexpr const char* kZshHead = R"(#compdef kintsugi kcp-front-proxy
# zsh completion of kintsugi; in ~/.zshrc:  source <(kintsugi completion zsh)
_kintsugi() {
  local command=$words[2]
  if [[ ${words[1]:t} == kcp-front-proxy ]]; then
    command=proxy
  elif (( CURRENT == 2 )); then
    local -a commands=(
)";

/// The fixed set that a placeholder names, empty for none: "serve|deny"; "lmdb", unlike "FILE".
std::vector<std::string> choices(const std::string& argument) {
  const bool is_set = argument.find_first_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos;
  std::vector<std::string> out;
  if (is_set) {
    for (const std::string_view one : split(argument, '|')) {
      out.emplace_back(one);
    }
  }
  return out;
}

/// In single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

/// What stands between the brackets and colons of zsh's _arguments.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

std::string bash_words(const std::string& words) {
  return "COMPREPLY=($(compgen -W " + shell_quoted(words) + " -- \"$cur\"))";
}

std::string bash_value(const std::string& argument) {
  if (argument == "FILE") {
    return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))";
  }
  if (argument == "DIR") {
    return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\"))";
  }
  return choices(argument).empty() ? ":" : bash_words(join(choices(argument), " "));
}

std::string zsh_value(const std::string& argument) {
  if (argument == "FILE") {
    return ":file:_files";
  }
  if (argument == "DIR") {
    return ":folder:_files -/";
  }
  return ":" + escaped(argument) + ":" +
         (choices(argument).empty() ? "" : "(" + join(choices(argument), " ") + ")");
}

std::string zsh_option(const Flag& flag) {
  const bool is_switch = flag.argument.empty();
  return "        " +
         shell_quoted("*--" + flag.name + (is_switch ? "" : "=") + "[" + escaped(flag.help) + "]" +
                      (is_switch ? "" : zsh_value(flag.argument)));
}

/// In single quotes of fish.
std::string quoted_of_fish(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + "'";
}

std::string fish_option(const Flag& flag) {
  const std::string name = (flag.name.size() == 1 ? " -s " : " -l ") + flag.name;
  std::string value;
  if (flag.argument == "FILE") {
    value = " -r -F";
  } else if (flag.argument == "DIR") {
    value = " -x -a '(__fish_complete_directories)'";
  } else if (!flag.argument.empty()) {
    value = " -x";
    if (const auto set = choices(flag.argument); !set.empty()) {
      value += " -a " + quoted_of_fish(join(set, " "));
    }
  }
  return name + value + " -d " + quoted_of_fish(flag.help);
}

}  // namespace

std::string bash_completion() {
  std::string names, values, options;
  for (const Command& command : commands()) {
    if (command.help == nullptr) {
      continue;
    }
    const CommandAbout about = command.about();
    const std::string name = command.name;
    names += name + " ";
    std::string words = join(about.words, " ");
    for (const FlagGroup& group : about.flags) {
      for (const Flag& flag : group.flags) {
        words += " --" + flag.name;
        if (!flag.argument.empty()) {
          values += "    " + shell_quoted(name + " --" + flag.name) + ") " +
                    bash_value(flag.argument) + "; return ;;\n";
        }
      }
    }
    options += "    " + name + ") " + bash_words(words + " --help") + " ;;\n";
  }
  return kBashHead + ("    " + bash_words(names + "help")) +
         "\n    return\n  fi\n  case \"$command $prev\" in\n" + values +
         "  esac\n  case $command in\n" + options +
         "  esac\n}\ncomplete -F _kintsugi kintsugi kcp-front-proxy\n";
}

std::string zsh_completion() {
  std::string names, options;
  for (const Command& command : commands()) {
    if (command.help == nullptr) {
      continue;
    }
    const CommandAbout about = command.about();
    names += "      " + shell_quoted(std::string(command.name) + ":" + command.help) + "\n";
    options += "    " + std::string(command.name) + ")\n      _arguments -S \\\n";
    for (const FlagGroup& group : about.flags) {
      for (const Flag& flag : group.flags) {
        options += zsh_option(flag) + " \\\n";
      }
    }
    options += "        '--help[this text]'";
    if (!about.words.empty()) {
      options += " \\\n        " + shell_quoted("1:word:(" + join(about.words, " ") + ")");
    }
    options += "\n      ;;\n";
  }
  return kZshHead + names +
         "      'help:commands and their options'\n    )\n"
         "    _describe command commands\n    return\n  else\n    shift words\n    (( CURRENT-- "
         "))\n"
         "  fi\n  case $command in\n" +
         options +
         "  esac\n}\n"
         "if [[ $funcstack[1] == _kintsugi ]]; then\n  _kintsugi \"$@\"\nelse\n"
         "  compdef _kintsugi kintsugi kcp-front-proxy\nfi\n";
}

std::string fish_completion() {
  std::string out =
      "# fish completion of kintsugi; in ~/.config/fish/config.fish:  kintsugi completion fish | "
      "source\ncomplete -c kintsugi -f\n";
  const auto first = [&out](const std::string& name, const std::string& help) {
    out += "complete -c kintsugi -n __fish_use_subcommand -a " + name + " -d " +
           quoted_of_fish(help) + "\n";
  };
  for (const Command& command : commands()) {
    if (command.help == nullptr) {
      continue;
    }
    const CommandAbout about = command.about();
    first(command.name, command.help);
    const std::string seen =
        "complete -c kintsugi -n '__fish_seen_subcommand_from " + std::string(command.name) + "'";
    if (!about.words.empty()) {
      out += seen + " -a " + quoted_of_fish(join(about.words, " ")) + "\n";
    }
    for (const FlagGroup& group : about.flags) {
      for (const Flag& flag : group.flags) {
        const std::string option = fish_option(flag) + "\n";
        out += seen + option;
        if (std::string_view(command.name) == "proxy") {
          out += "complete -c kcp-front-proxy" + option;
        }
      }
    }
    out += seen + " -l help -d 'this text'\n";
  }
  first("help", "commands and their options");
  return out;
}

CommandAbout completion_about() {
  return {"kintsugi completion bash|zsh|fish",
          "Prints what a shell needs to complete commands, options, choices and files:\n\n"
          "  source <(kintsugi completion bash)   in ~/.bashrc\n"
          "  source <(kintsugi completion zsh)    in ~/.zshrc, after compinit\n"
          "  kintsugi completion fish | source    in ~/.config/fish/config.fish",
          {"bash", "zsh", "fish"},
          {}};
}

int run_completion(const std::vector<std::string>& arguments) {
  const auto words = take_arguments("completion", {}, completion_about, arguments);
  if (!words) {
    return words.error();
  }
  const std::string shell = words->size() == 1 ? words->front() : "";
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    return wrong_usage("completion", "say one of bash, zsh, fish");
  }
  const std::string script = shell == "bash"  ? bash_completion()
                             : shell == "zsh" ? zsh_completion()
                                              : fish_completion();
  std::fputs(script.c_str(), stdout);
  return 0;
}

}  // namespace kintsugi::cmd
