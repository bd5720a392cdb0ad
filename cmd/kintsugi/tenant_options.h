#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "net/address_rules.h"
#include "net/outgoing.h"

namespace kintsugi::cmd {

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

/// @param allow_default  shown for --outgoing-allow.
[[nodiscard]] FlagGroup tenant_flags(TenantOptions& options, const std::string& allow_default);
/// @error kConfig what is wrong with the options.
[[nodiscard]] Expected<void> check_tenant_options(const TenantOptions& options);

}  // namespace kintsugi::cmd
