#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cmd/kintsugi/commands.h"

namespace {

using kintsugi::cmd::complain;

struct Command {
  const char* name;
  const char* help;
  int (*run)(const std::vector<std::string>&);
};

constexpr const char* kFrontProxy = "kcp-front-proxy";

constexpr Command kCommands[] = {
    {"up", "a whole installation on this machine: a proxy and shards", kintsugi::cmd::run_up},
    {"proxy", "the front proxy", kintsugi::cmd::run_proxy},
    {"shard", "an embedded shard", kintsugi::cmd::run_shard},
    {"ws", "the workspace that a kubeconfig points to: show, change, create, list, delete",
     kintsugi::cmd::run_ws},
    {"store", "backup, restore and repair of a shard's data", kintsugi::cmd::run_store},
};

void print_usage(std::FILE* out) {
  std::fputs("usage: kintsugi <command> [options]\n\ncommands:\n", out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-10s%s\n", command.name, command.help);
  }
  std::fputs(
      "  version   print the version\n\n`kintsugi <command> --help` lists the options of a "
      "command.\n",
      out);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // A drop-in replacement under its own name (FP-154).
  const std::string_view called = argc > 0 ? argv[0] : "";
  if (called.substr(called.rfind('/') + 1) == kFrontProxy) {
    if (!arguments.empty() && arguments.front() == "--version") {
      std::printf("%s version %s\n", kFrontProxy, kintsugi::cmd::version());
      return 0;
    }
    return kintsugi::cmd::run_proxy(arguments);
  }
  if (arguments.empty()) {
    print_usage(stderr);
    return 2;
  }
  const std::string& name = arguments.front();
  if (name == "help" || name == "-h" || name == "--help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "version" || name == "--version") {
    std::printf("kintsugi %s\n", kintsugi::cmd::version());
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) {
      return command.run({arguments.begin() + 1, arguments.end()});
    }
  }
  return complain(name, "no such command; `kintsugi help` lists them", 2);
}
