#include "base/log_level.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"

/// `kintsugi log-level`: what a running proxy logs (OP-303).
namespace kintsugi::cmd {
namespace {

struct Options {
  std::string admin, period;
};

FlagTable flag_table(Options& options) {
  return {{"Options",
           {admin_flag(options.admin),
            {"for", "TIME", "", "after that it is what it was before: 30s, 10m, 2h",
             into(options.period)}}}};
}

}  // namespace

CommandAbout log_level_about() {
  Options options;
  return {"kintsugi log-level [error|warn|info|debug] [options]",
          "What a running proxy logs, asked and changed at its admin socket. A change is gone when "
          "the proxy starts\nagain.",
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
  const auto answer =
      ask_admin(admin_socket(options.admin), target, words->empty() ? "GET" : "PUT");
  if (!answer) {
    return complain("log-level", answer.error());
  }
  const krm::Json* const left = answer->find("secondsLeft");
  std::string text(answer->text({"level"}));
  if (left != nullptr) {
    text += ", in " + std::to_string(left->as_integer()) + " s " +
            std::string(answer->text({"after"})) + " again";
  }
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace kintsugi::cmd
