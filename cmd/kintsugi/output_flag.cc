#include "cmd/kintsugi/output_flag.h"

#include <algorithm>
#include <cstdio>

#include "base/strings.h"
#include "krm/yaml.h"

namespace kintsugi::cmd {

std::vector<Flag> output_flags(std::string& target, const std::vector<std::string>& allowed) {
  target = allowed.front();
  const auto set = [&target, allowed](std::string_view value) -> Expected<void> {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      return fail(Errc::kConfig,
                  "\"" + std::string(value) + "\" is not one of " + join(allowed, ", "));
    }
    target = value;
    return {};
  };
  const std::string choice = join(allowed, "|");
  return {{"output", choice, allowed.front(), "form of what is printed", set},
          {"o", choice, allowed.front(), "the same", set}};
}

bool print_document(const std::string& form, const krm::Json& document) {
  if (form != "json" && form != "yaml") {
    return false;
  }
  std::fputs((form == "json" ? document.dump_pretty() : krm::to_yaml(document)).c_str(), stdout);
  return true;
}

}  // namespace kintsugi::cmd
