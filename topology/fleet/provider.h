#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "topology/fleet/internal/fault.h"

namespace kintsugi::topology {

/// The provider that needs no program: a Secret of the hub holds a kubeconfig. The community's
/// plug-in of that kind has the second name.
inline constexpr std::string_view kSecretProvider = "kubeconfig-secret";
inline constexpr std::string_view kSecretReader = "kubeconfig-secretreader";

/// A program that gives credentials, as it is run (KEP-541).
struct FleetExec {
  std::string command;  ///< a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string api_version;
  std::string cluster;  ///< JSON of spec.cluster of its ExecCredential; "": it is told nothing
  bool operator==(const FleetExec&) const = default;
};

/// One entry of the provider file.
struct FleetProvider {
  /// What of a profile's additional environment is used.
  enum class Environment : std::uint8_t { kIgnore, kAppendIfNotExists, kReplace };
  std::string name;
  bool is_secret = false;  ///< it is built in, `exec` is not used
  FleetExec exec;          ///< without `cluster`
  krm::Json config;        ///< of the file, for spec.cluster.info.config
  bool tells_cluster = false;
  bool appends_arguments = false;
  Environment environment = Environment::kIgnore;
};

/// The providers in the order in which they are looked for. The built-in one is last where the file
/// does not place it.
/// @param text  {"providers": [{name, execConfig, …}]}, JSON or YAML; "": there is no file
/// @param origin  for messages. @param folder  what relative commands with a '/' start at
/// @error kConfig `<origin>: providers[1].execConfig.command: missing`
[[nodiscard]] Expected<std::vector<FleetProvider>> read_fleet_providers(std::string_view text,
                                                                        const std::string& origin,
                                                                        const std::string& folder);

/// The program for one cluster. @param cluster  of the profile's access provider. Its words are
/// used as far as the file lets them.
[[nodiscard]] Judged<FleetExec> exec_for(const FleetProvider& provider, const krm::Json& cluster);

/// The content of an extension of a cluster; null: it has none of that name.
[[nodiscard]] const krm::Json* fleet_extension(const krm::Json& cluster, std::string_view name);
inline constexpr std::string_view kExecExtension = "client.authentication.k8s.io/exec";

}  // namespace kintsugi::topology
