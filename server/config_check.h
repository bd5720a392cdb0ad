#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/loaded_config.h"

/// `kintsugi proxy --validate` (OP-105): what a configuration names is looked at, nothing is
/// written or listened on. What files hold is never shown.
namespace kintsugi::server {

struct ConfigFinding {
  bool is_error = true;  ///< else a warning: it would start
  std::string text;      ///< "<file>:<line>: <key>: <what is wrong>"
};

struct ConfigCheck {
  std::size_t checks = 0;  ///< that were made
  std::vector<ConfigFinding> findings;
  [[nodiscard]] bool has_error() const;
};

/// Level `files`: certificates with their keys, what they are for and until when; CAs, revocation
/// lists, kubeconfigs, tokens, mapping, policies; folders and rights.
/// @param now  [s since 1970]
[[nodiscard]] ConfigCheck check_files(const LoadedProxyConfig& loaded, std::int64_t now);

/// "<file>:<line>" of a key, or what else has set it: a variable, the command line.
[[nodiscard]] std::string place_of(const std::string& path, const krm::ConfigOrigin& origin,
                                   const std::string& key);

/// What --validate prints on stdout: the findings, a line each, and how it went:
/// "proxy.yaml: ok (23 checks, 1 warning)".
[[nodiscard]] std::string report_text(const ConfigCheck& check, const std::string& name);

}  // namespace kintsugi::server
