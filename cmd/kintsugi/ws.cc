#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/workspace_commands.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kLongestWait = 86'400;  // [s]

constexpr const char* kUsage = "kintsugi ws [command] [workspace] [options]";
constexpr const char* kDescription =
    "Shows and changes the workspace that the kubeconfig points to.\n\n"
    "  ws                  prints the path of the current workspace\n"
    "  ws WORKSPACE        goes there; `ws use WORKSPACE` is the same for workspaces that are "
    "named\n"
    "                      like a command\n"
    "  ws create NAME      makes a workspace and waits until it is ready\n"
    "  ws list [WORKSPACE] lists the workspaces in the current one, or in another\n"
    "  ws tree [WORKSPACE] shows everything below\n"
    "  ws delete NAME      deletes a workspace with all that is in it, and waits for it\n\n"
    "WORKSPACE is relative (a, a:b, .., ../a), absolute (root, root:a, :v1u4alow0iv9), the home\n"
    "workspace of the user or something in it (~, ~:a; made when it is first asked for), or - for\n"
    "the previous one. `/` may stand for `:`.\n\n"
    "The kubeconfig is --kubeconfig, else the files in $KUBECONFIG, else ~/.kube/config. Going to "
    "a\n"
    "workspace makes `workspace.kcp.io/current` its current context, with the credentials that "
    "were\n"
    "current and the server URL …/clusters/<path>; other contexts stay as they are. kcp's kubectl\n"
    "plugin does the same, so both can be used in turn.\n\n"
    "Exit status: 0 done; 1 it did not work; 2 wrong usage; 3 not done within --timeout; 4 there "
    "is\n"
    "no such workspace; 5 access denied.";

/// An option and the commands that it means something to.
struct OptionUse {
  const char* option;
  std::vector<std::string> commands;
};
const std::vector<OptionUse>& option_uses() {
  static const std::vector<OptionUse> kUses = {
      {"type", {"create"}},
      {"location-selector", {"create"}},
      {"enter", {"create"}},
      {"ignore-existing", {"create"}},
      {"wait", {"create", "delete"}},
      {"timeout", {"create", "delete", "use"}},
      {"depth", {"tree"}},
      {"full", {"tree"}},
  };
  return kUses;
}

FlagTable flag_table(WorkspaceOptions& options) {
  return {
      {"Where",
       {{"kubeconfig", "FILE", "", "the kubeconfig to read and change", into(options.kubeconfig)}}},
      {"create",
       {{"type", "PATH:NAME", "",
         "type of the workspace; by default what the parent's type says, mostly root:universal",
         into(options.type)},
        {"location-selector", "LABELS", "",
         "labels of the shard that shall hold it (region=eu-west-1)", into(options.selector)},
        {"enter", "", "", "goes there", into(options.enter)},
        {"ignore-existing", "", "", "a workspace that is there already will do",
         into(options.ignore_existing)}}},
      {"create, delete, use",
       {{"wait", "", "true", "create, delete: waits; --wait=false does not", into(options.wait)},
        {"timeout", "SECONDS", "60", "waits no longer", into(options.timeout)}}},
      {"tree",
       {{"depth", "N", "0", "levels to show, 0 for all", into(options.depth)},
        {"full", "", "", "whole paths", into(options.full)}}},
  };
}

struct Subcommand {
  const char* name;
  std::size_t least, most;  // arguments
  Expected<void> (*run)(WorkspaceCommands& commands, const std::vector<std::string>& arguments);
};

std::string or_here(const std::vector<std::string>& arguments) {
  return arguments.empty() ? "." : arguments.front();
}

constexpr Subcommand kSubcommands[] = {
    {"use", 1, 1,
     [](WorkspaceCommands& commands, const std::vector<std::string>& arguments) {
       return commands.use(arguments.front());
     }},
    {"create", 1, 1,
     [](WorkspaceCommands& commands, const std::vector<std::string>& arguments) {
       return commands.create(arguments.front());
     }},
    {"list", 0, 1,
     [](WorkspaceCommands& commands, const std::vector<std::string>& arguments) {
       return commands.list(or_here(arguments));
     }},
    {"tree", 0, 1,
     [](WorkspaceCommands& commands, const std::vector<std::string>& arguments) {
       return commands.tree(or_here(arguments));
     }},
    {"delete", 1, 1,
     [](WorkspaceCommands& commands, const std::vector<std::string>& arguments) {
       return commands.remove(arguments.front());
     }},
};

int status_of(Errc code) {
  switch (code) {
    case Errc::kDeadline:
      return 3;
    case Errc::kNotFound:
      return 4;
    case Errc::kForbidden:
    case Errc::kUnauthorized:
      return 5;
    default:
      return 1;
  }
}

int report(const Expected<void>& result) {
  return result ? 0 : complain("ws", result.error(), status_of(result.error().code()));
}

/// "" or what is wrong with the options for this command.
std::string misplaced(const std::string& command, const std::vector<std::string>& given) {
  for (const OptionUse& use : option_uses()) {
    const bool is_given = std::find(given.begin(), given.end(), use.option) != given.end();
    const bool is_used =
        std::find(use.commands.begin(), use.commands.end(), command) != use.commands.end();
    if (is_given && !is_used) {
      return "--" + std::string(use.option) + " is an option of `ws " +
             join(use.commands, "`, `ws ") + "`";
    }
  }
  return {};
}

}  // namespace

CommandAbout ws_about() {
  WorkspaceOptions options;
  std::vector<std::string> words;
  for (const Subcommand& command : kSubcommands) {
    words.emplace_back(command.name);
  }
  return {kUsage, kDescription, std::move(words), without_setters(flag_table(options))};
}

int run_ws(const std::vector<std::string>& arguments) {
  WorkspaceOptions options;
  std::vector<std::string> given;
  FlagTable flags = flag_table(options);
  for (FlagGroup& group : flags) {
    for (Flag& flag : group.flags) {
      flag.set = [&given, name = flag.name, set = std::move(flag.set)](std::string_view value) {
        given.push_back(name);
        return set(value);
      };
    }
  }
  auto words = take_arguments("ws", flags, ws_about, arguments);
  if (!words) {
    return words.error();
  }
  if (options.timeout == 0 || options.timeout > kLongestWait) {
    return wrong_usage("ws", "--timeout is between 1 and 86400 seconds");
  }
  std::vector<std::string> rest = std::move(*words);
  const Subcommand* command = nullptr;
  for (const Subcommand& one : kSubcommands) {
    if (!rest.empty() && rest.front() == one.name) {
      command = &one;
      rest.erase(rest.begin());
      break;
    }
  }
  if (command == nullptr && !rest.empty()) {
    command = &kSubcommands[0];
  }
  const std::string name = command == nullptr ? "" : command->name;
  if (const std::string wrong = misplaced(name, given); !wrong.empty()) {
    return wrong_usage("ws", wrong);
  }
  if (command != nullptr && (rest.size() < command->least || rest.size() > command->most)) {
    return wrong_usage("ws", "`ws " + name + "` takes " +
                                 (command->least == 1 ? "one workspace" : "at most one workspace"));
  }
  auto commands = WorkspaceCommands::open(std::move(options));
  if (!commands) {
    return complain("ws", commands.error());
  }
  return report(command == nullptr ? (*commands)->show() : command->run(**commands, rest));
}

}  // namespace kintsugi::cmd
