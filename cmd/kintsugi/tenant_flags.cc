#include "cmd/kintsugi/tenant_flags.h"

namespace kintsugi::cmd {

FlagGroup tenant_flags(server::TenantOptions& options, const std::string& allow_default) {
  return {"Tenants",
          {{"outgoing-allow", "LIST", allow_default,
            "addresses, ranges and hosts that conversion webhooks and token issuers of "
            "tenants may be at, besides public ones; at any port",
            into(options.outgoing_allow)},
           {"outgoing-deny", "LIST", "", "the same: that they may not be at",
            into(options.outgoing_deny)},
           {"outgoing-ports", "LIST", "443,8443,9443", "ports of public ones",
            into(options.outgoing_ports)},
           {"existence", "hide|kcp", "hide",
            "whether strangers hear the same of workspaces that exist and of none, or what kcp "
            "tells them",
            into(options.existence)}}};
}

}  // namespace kintsugi::cmd
