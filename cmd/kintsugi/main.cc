#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/near_name.h"
#include "base/recycled_memory.h"
#include "base/version.h"
#include "cmd/kintsugi/build_data.h"
#include "cmd/kintsugi/commands.h"
#include "net/service_notices.h"
#include "server/program.h"

namespace {

using kintsugi::cmd::Command;
using kintsugi::cmd::commands;
using kintsugi::cmd::complain;

constexpr const char* kFrontProxy = "kcp-front-proxy";

void print_usage(std::FILE* out) {
  std::fputs("usage: kintsugi <command> [options]\n\ncommands:\n", out);
  for (const Command& command : commands()) {
    if (command.help != nullptr) {
      std::fprintf(out, "  %-15s %s\n", command.name, command.help);
    }
  }
  std::fputs(
      "  help            this text; `kintsugi help <command>` and "
      "`kintsugi <command> --help` list the\n                  options of a command\n",
      out);
}

int run(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> known = {"help"};
  for (const Command& command : commands()) {
    if (name == command.name) {
      return command.run(arguments);
    }
    if (command.help != nullptr) {
      known.emplace_back(command.name);
    }
  }
  const std::string near = kintsugi::nearest_name(name, known);
  return complain(name,
                  near.empty() ? "no such command; `kintsugi help` lists them"
                               : "no such command; did you mean " + near + "?",
                  2);
}

int run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // A drop-in replacement under its own name.
  const std::string_view called = argc > 0 ? argv[0] : "";
  if (called.substr(called.rfind('/') + 1) == kFrontProxy) {
    return kintsugi::cmd::run_front_proxy(arguments);
  }
  if (arguments.empty()) {
    print_usage(stderr);
    return 2;
  }
  const std::string& name = arguments.front();
  if (name == "-h" || name == "--help" || (name == "help" && arguments.size() == 1)) {
    print_usage(stdout);
    return 0;
  }
  if (name == "help") {
    return run(arguments[1], {"--help"});
  }
  if (name == "--version") {
    return kintsugi::cmd::run_version({});
  }
  return run(name, {arguments.begin() + 1, arguments.end()});
}

/// Whether all of the standard output is where it went. A closed one, and whoever reads no further,
/// want no more.
bool is_told() {
  struct stat out {};
  const bool is_kept =
      ::fstat(STDOUT_FILENO, &out) == 0 && !S_ISFIFO(out.st_mode) && !S_ISSOCK(out.st_mode);
  const bool is_whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return is_whole || !is_kept;
}

}  // namespace

int main(int argc, char** argv) {
  kintsugi::recycle_memory_of_openssl();
  std::signal(SIGPIPE, SIG_IGN);
  kintsugi::cmd::set_build_data(kintsugi::cmd::generated_build_data());
  kintsugi::set_build_version(kintsugi::cmd::build_data().version.data());
  (void)kintsugi::net::service_notices();  // before there are threads and children
  kintsugi::server::raise_descriptor_limit();
  kintsugi::server::take_short_turns();
  const int status = run(argc, argv);
  if (!is_told() && status == 0) {
    std::fputs("kintsugi: the standard output could not be written\n", stderr);
    return 1;
  }
  return status;
}
