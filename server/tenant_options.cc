#include "server/tenant_options.h"

#include <utility>

#include "base/strings.h"

namespace kintsugi::server {

Expected<net::OutgoingRules> TenantOptions::rules() const {
  net::OutgoingRules rules;
  rules.allow = outgoing_allow;
  rules.deny = outgoing_deny;
  for (const auto& [name, list] :
       {std::pair("--outgoing-allow", &rules.allow), std::pair("--outgoing-deny", &rules.deny)}) {
    if (const auto parsed = net::AddressList::parse(*list); !parsed) {
      return fail(Errc::kConfig, std::string(name) + ": " + std::string(parsed.error().message()));
    }
  }
  if (!outgoing_ports.empty()) {
    rules.ports.clear();
  }
  for (const std::string& text : outgoing_ports) {
    const auto port = parse_decimal<std::uint16_t>(text);
    if (!port || *port == 0) {
      return fail(Errc::kConfig, "--outgoing-ports: \"" + text + "\" is not a port");
    }
    rules.ports.push_back(*port);
  }
  return rules;
}

std::vector<std::string> TenantOptions::arguments() const {
  std::vector<std::string> out = {"--existence", existence};
  const auto add = [&out](const char* name, const std::vector<std::string>& list) {
    if (!list.empty()) {
      out.insert(out.end(), {name, join(list, ",")});
    }
  };
  add("--outgoing-allow", outgoing_allow);
  add("--outgoing-deny", outgoing_deny);
  add("--outgoing-ports", outgoing_ports);
  return out;
}

std::string TenantOptions::config_text() const {
  std::string text = "existence: " + existence + "\n";
  std::string section;
  const auto add = [&section](const char* key, const std::vector<std::string>& list, bool quoted) {
    if (!list.empty()) {
      const std::string mark = quoted ? "\"" : "";
      section +=
          std::string("  ") + key + ": [" + mark + join(list, mark + ", " + mark) + mark + "]\n";
    }
  };
  add("allow", outgoing_allow, true);
  add("deny", outgoing_deny, true);
  add("ports", outgoing_ports, false);
  return section.empty() ? text : text + "outgoing:\n" + section;
}

Expected<void> check_tenant_options(const TenantOptions& options) {
  if (options.existence != "hide" && options.existence != "kcp") {
    return fail(Errc::kConfig, "--existence: \"" + options.existence +
                                   "\" is not a choice that this version has; known: hide, kcp");
  }
  auto rules = options.rules();
  if (!rules) {
    return fail(std::move(rules.error()));
  }
  return {};
}

}  // namespace kintsugi::server
