#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "net/address_rules.h"

namespace kintsugi::server {

/// Options of `kintsugi shard` and `kintsugi up` about tenants: what their objects may make the
/// process talk to, and what strangers are told.
struct TenantOptions {
  std::vector<std::string> outgoing_allow, outgoing_deny, outgoing_ports;
  std::string existence = "hide";

  [[nodiscard]] bool hides_existence() const { return existence == "hide"; }
  /// @error kConfig names the option.
  [[nodiscard]] Expected<net::OutgoingRules> rules() const;
  /// As command line for a shard.
  [[nodiscard]] std::vector<std::string> arguments() const;
  /// As part of proxy.yaml.
  [[nodiscard]] std::string config_text() const;
};

/// @error kConfig what is wrong with the options.
[[nodiscard]] Expected<void> check_tenant_options(const TenantOptions& options);

}  // namespace kintsugi::server
