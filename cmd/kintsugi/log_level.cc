#include "base/log_level.h"

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"

/// `kintsugi log-level`: what running processes log (OP-303).
namespace kintsugi::cmd {
namespace {

struct Options {
  std::string admin, process, period;
};

FlagTable flag_table(Options& options) {
  return {{"Options",
           {admin_flag(options.admin),
            {"process", "NAME|all", "proxy",
             "whose: proxy, up, the name of a shard, worker-ROLE; all: of everyone with a socket "
             "beside that of --admin",
             into(options.process)},
            {"for", "TIME", "", "after that it is what it was before: 30s, 10m, 2h",
             into(options.period)}}}};
}

/// "debug, in 598 s info again".
std::string shown(const krm::Json& answer) {
  const krm::Json* const left = answer.find("secondsLeft");
  std::string text(answer.text({"level"}));
  if (left != nullptr) {
    text += ", in " + std::to_string(left->as_integer()) + " s " +
            std::string(answer.text({"after"})) + " again";
  }
  return text;
}

/// By the names of processes; with one "" nobody is named.
Expected<std::map<std::string, std::string>> sockets_of(const Options& options) {
  const std::string admin = admin_socket(options.admin);
  if (options.process.empty()) {
    return std::map<std::string, std::string>{{"", admin}};
  }
  return process_sockets(admin, options.process);
}

}  // namespace

CommandAbout log_level_about() {
  Options options;
  return {"kintsugi log-level [error|warn|info|debug] [options]",
          "What running processes log, asked and changed at their admin sockets. A change is gone "
          "when the process\nstarts again.",
          {"error", "warn", "info", "debug"},
          without_setters(flag_table(options))};
}

int run_log_level(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("log-level", flag_table(options), log_level_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->size() > 1 || (words->empty() && !options.period.empty())) {
    return wrong_usage("log-level", "say one level");
  }
  std::string target = "/debug/log";
  if (!words->empty()) {
    if (!parse_log_level(words->front())) {
      return wrong_usage("log-level",
                         "\"" + words->front() + "\" is none of error, warn, info, debug");
    }
    target += "?level=" + words->front();
    target += options.period.empty() ? "" : "&for=" + percent_encode(options.period);
  }
  const auto sockets = sockets_of(options);
  if (!sockets) {
    return complain("log-level", sockets.error());
  }
  int status = 0;
  for (const auto& [name, socket] : *sockets) {
    const auto answer = ask_admin(socket, target, words->empty() ? "GET" : "PUT");
    if (!answer) {
      status = complain("log-level", answer.error());
      continue;
    }
    const std::string before = sockets->size() == 1 ? "" : name + ": ";
    std::printf("%s%s\n", before.c_str(), shown(*answer).c_str());
  }
  return status;
}

}  // namespace kintsugi::cmd
