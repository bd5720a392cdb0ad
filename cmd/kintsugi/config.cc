// kintsugi config: what configurations may say.
#include "proxy/config/config.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "server/worker_config.h"
#include "server/worker_program.h"

namespace kintsugi::cmd {

CommandAbout config_about() {
  return {
      "kintsugi config schema|env proxy|worker",
      "schema   JSON Schema (2020-12) of ProxyConfiguration or WorkerConfiguration, for editors "
      "and checks\n"
      "env      names of the environment variables that set its keys, one a line",
      {"schema", "env"},
      {}};
}

int run_config(const std::vector<std::string>& arguments) {
  const auto words = take_arguments("config", {}, config_about, arguments);
  if (!words) {
    return words.error();
  }
  const bool known = words->size() == 2 &&
                     (words->front() == "schema" || words->front() == "env") &&
                     (words->back() == "proxy" || words->back() == "worker");
  if (!known) {
    return wrong_usage("config", "say schema or env, then proxy or worker");
  }
  const krm::ConfigDescription told =
      words->back() == "proxy" ? proxy::describe_proxy_config()
                               : server::describe_worker_config(server::known_worker_roles());
  const std::string text =
      words->front() == "schema" ? told.schema.dump_pretty() : join(told.variables, "\n") + "\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace kintsugi::cmd
