#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/config_table.h"

/// Variables of the environment that set keys of a configuration (OP-107).
/// Threads: any; who reads the process's environment does so before it has others.
namespace kintsugi::krm {

/// Not KINTSUGI_: a Kubernetes Service named kintsugi brings KINTSUGI_PORT=tcp://… along.
inline constexpr std::string_view kEnvironmentPrefix = "KINTSUGI_CFG_";

/// Names and values.
using ConfigEnvironment = std::vector<std::pair<std::string, std::string>>;

/// "KINTSUGI_CFG_LISTENER_PORT" for "listener.port".
[[nodiscard]] std::string environment_name(std::string_view path);

/// Those that set a key of the table, sorted.
[[nodiscard]] std::vector<std::string> environment_names(const ConfigTable& table);

/// The variables of this process that begin so, in order of their names.
[[nodiscard]] ConfigEnvironment config_environment();

/// Sets what variables say, lists by comma, other values as in YAML. Sections with free names have
/// the keys of those that are there; elements of lists of sections have none.
/// @returns the paths of the keys that were set.
/// @error kConfig  "<variable>: <what is wrong>", a line for each: no such key, or a wrong value.
[[nodiscard]] Expected<std::set<std::string>> apply_environment(
    const ConfigEnvironment& environment, const ConfigTable& table);

}  // namespace kintsugi::krm
