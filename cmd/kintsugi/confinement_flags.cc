#include "cmd/kintsugi/confinement_flags.h"

#include <string>
#include <string_view>

namespace kintsugi::cmd {

FlagGroup confinement_flags(server::Confinement& options) {
  return {
      "Confinement",
      {{"sandbox", "on|off", "on",
        "once it has started, the process makes only the system calls of a server",
        [&options](std::string_view value) -> Expected<void> {
          if (value != "on" && value != "off") {
            return fail(Errc::kConfig, "\"" + std::string(value) + "\" is neither on nor off");
          }
          options.sandbox = value == "on";
          return {};
        }},
       {"core-dumps", "", "", "allow core dumps and debuggers: memory has keys and tokens in it",
        into(options.core_dumps)},
       {"allow-root", "", "", "run as root without a warning", into(options.allow_root)}}};
}

}  // namespace kintsugi::cmd
