#include "topology/fleet/provider.h"

#include <algorithm>
#include <filesystem>

#include "krm/named_entry.h"
#include "krm/yaml.h"

namespace kintsugi::topology {

using krm::Json;

namespace {

constexpr std::string_view kArguments =
    "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";
constexpr std::string_view kVariables =
    "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs";
constexpr std::string_view kVersions[] = {"client.authentication.k8s.io/v1",
                                          "client.authentication.k8s.io/v1beta1"};
constexpr std::size_t kMostProviders = 64, kMostWords = 64, kMostBytes = std::size_t{16} << 10;

std::string place(std::size_t index, std::string_view field) {
  return "providers[" + std::to_string(index) + "]." + std::string(field);
}

Expected<void> read_exec(const Json& config, const std::string& folder, FleetProvider& out) {
  FleetExec& exec = out.exec;
  exec.api_version = config.text({"apiVersion"});
  if (std::find(std::begin(kVersions), std::end(kVersions), exec.api_version) ==
      std::end(kVersions)) {
    return fail(Errc::kConfig, "execConfig.apiVersion: must be one of " +
                                   std::string(kVersions[0]) + ", " + std::string(kVersions[1]));
  }
  exec.command = config.text({"command"});
  if (exec.command.empty()) {
    return fail(Errc::kConfig, "execConfig.command: missing");
  }
  if (exec.command.find('/') != std::string::npos && exec.command.front() != '/') {
    exec.command = (std::filesystem::path(folder) / exec.command).string();
  }
  if (config.text({"interactiveMode"}) == "Always") {
    return fail(Errc::kConfig, "execConfig.interactiveMode: nobody is asked here, must be Never");
  }
  const Json* arguments = config.find("args");
  for (const Json& one : arguments != nullptr ? arguments->items() : Json::Array()) {
    exec.arguments.emplace_back(one.as_string());
  }
  const Json* variables = config.find("env");
  for (const Json& one : variables != nullptr ? variables->items() : Json::Array()) {
    exec.environment.emplace_back(one.text({"name"}), one.text({"value"}));
  }
  const Json* tells = config.find("provideClusterInfo");
  out.tells_cluster = tells != nullptr && tells->as_bool();
  if (const Json* own = config.find("config")) {
    out.config = *own;
  }
  return {};
}

Expected<void> read_policies(const Json& entry, FleetProvider& out) {
  const std::string_view arguments = entry.text({"profileSourcedCLIArgsPolicy"});
  if (arguments != "" && arguments != "Ignore" && arguments != "Append") {
    return fail(Errc::kConfig, "profileSourcedCLIArgsPolicy: must be one of Ignore, Append");
  }
  out.appends_arguments = arguments == "Append";
  const std::string_view variables = entry.text({"profileSourcedEnvVarsPolicy"});
  using Environment = FleetProvider::Environment;
  if (variables == "AppendIfNotExists") {
    out.environment = Environment::kAppendIfNotExists;
  } else if (variables == "Replace") {
    out.environment = Environment::kReplace;
  } else if (variables != "" && variables != "Ignore") {
    return fail(Errc::kConfig,
                "profileSourcedEnvVarsPolicy: must be one of Ignore, AppendIfNotExists, Replace");
  }
  return {};
}

bool is_built_in(std::string_view name) { return name == kSecretProvider || name == kSecretReader; }

FleetProvider secret_provider(std::string_view name) {
  FleetProvider provider;
  provider.name = name;
  provider.is_secret = true;
  return provider;
}

Expected<FleetProvider> read_entry(const Json& entry, const std::string& folder) {
  FleetProvider provider;
  provider.name = entry.text({"name"});
  if (provider.name.empty()) {
    return fail(Errc::kConfig, "name: missing");
  }
  const Json* exec = entry.find("execConfig");
  if (exec == nullptr || !exec->is_object()) {
    if (is_built_in(provider.name)) {
      return secret_provider(provider.name);
    }
    return fail(Errc::kConfig, "execConfig: missing");
  }
  auto read = read_exec(*exec, folder, provider);
  read = read ? read_policies(entry, provider) : std::move(read);
  if (!read) {
    return fail(std::move(read.error()));
  }
  return provider;
}

/// What a program is told of the server.
std::string cluster_info(const FleetProvider& provider, const Json& cluster) {
  Json out = Json::object({});
  for (const std::string_view key : {"server", "tls-server-name", "insecure-skip-tls-verify",
                                     "proxy-url", "certificate-authority-data"}) {
    const Json* value = cluster.find(key);
    const bool is_empty =
        value == nullptr || value->is_null() || (value->is_string() && value->as_string().empty());
    if (!is_empty) {
      out[key] = *value;
    }
  }
  const Json* own = fleet_extension(cluster, kExecExtension);
  if (own != nullptr) {
    out["config"] = *own;
  } else if (!provider.config.is_null()) {
    out["config"] = provider.config;
  }
  return out.dump();
}

Judged<void> add_arguments(const Json* words, FleetExec& exec) {
  if (words == nullptr) {
    return {};
  }
  if (!words->is_array() || words->size() > kMostWords || words->dump().size() > kMostBytes) {
    return fault(FleetReason::kBadProfile,
                 std::string(kArguments) + ": must be a list of at most 64 texts, 16 KiB");
  }
  for (const Json& word : words->items()) {
    if (!word.is_string() || word.as_string().find('\0') != std::string_view::npos) {
      return fault(FleetReason::kBadProfile, std::string(kArguments) + ": has what is no text");
    }
    exec.arguments.emplace_back(word.as_string());
  }
  return {};
}

/// With these a hub would decide what is run, or what it is told.
bool is_reserved(std::string_view name) {
  return name.starts_with("LD_") || name == "PATH" || name == "KUBERNETES_EXEC_INFO";
}

Judged<void> add_variables(const Json* variables, bool replaces, FleetExec& exec) {
  if (variables == nullptr) {
    return {};
  }
  if (!variables->is_object() || variables->size() > kMostWords ||
      variables->dump().size() > kMostBytes) {
    return fault(FleetReason::kBadProfile,
                 std::string(kVariables) + ": must be at most 64 names with texts, 16 KiB");
  }
  for (const auto& [name, value] : variables->members()) {
    if (name.empty() || is_reserved(name) ||
        name.find_first_of(std::string_view("=\0", 2)) != std::string::npos ||
        value.as_string().find('\0') != std::string_view::npos) {
      return fault(FleetReason::kBadProfile,
                   std::string(kVariables) + ": a name or value cannot be a variable's of a hub");
    }
    const auto known = std::find_if(exec.environment.begin(), exec.environment.end(),
                                    [&name = name](const auto& one) { return one.first == name; });
    if (known == exec.environment.end()) {
      exec.environment.emplace_back(name, value.as_string());
    } else if (replaces) {
      known->second = value.as_string();
    }
  }
  return {};
}

}  // namespace

const Json* fleet_extension(const Json& cluster, std::string_view name) {
  const Json* one = krm::find_named(cluster, "extensions", name);
  return one == nullptr ? nullptr : one->find("extension");
}

Expected<std::vector<FleetProvider>> read_fleet_providers(std::string_view text,
                                                          const std::string& origin,
                                                          const std::string& folder) {
  std::vector<FleetProvider> providers;
  if (!text.empty()) {
    const auto document = krm::parse_yaml(text);
    const Json* list = document ? document->find("providers") : nullptr;
    if (list == nullptr || !list->is_array() || list->size() > kMostProviders) {
      return fail(Errc::kConfig, origin + ": providers: must be a list of at most 64");
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      auto entry = read_entry(list->items()[i], folder);
      if (!entry) {
        return fail(Errc::kConfig, origin + ": " + place(i, std::string(entry.error().message())));
      }
      const bool is_known =
          std::any_of(providers.begin(), providers.end(),
                      [&](const FleetProvider& one) { return one.name == entry->name; });
      if (is_known) {
        return fail(Errc::kConfig, origin + ": " + place(i, "name: another provider has it"));
      }
      providers.push_back(std::move(*entry));
    }
  }
  for (const std::string_view name : {kSecretProvider, kSecretReader}) {
    const bool is_placed = std::any_of(providers.begin(), providers.end(),
                                       [&](const FleetProvider& one) { return one.name == name; });
    if (!is_placed) {
      providers.push_back(secret_provider(name));
    }
  }
  return providers;
}

Judged<FleetExec> exec_for(const FleetProvider& provider, const Json& cluster) {
  FleetExec exec = provider.exec;
  if (provider.tells_cluster) {
    exec.cluster = cluster_info(provider, cluster);
  }
  if (provider.appends_arguments) {
    if (auto added = add_arguments(fleet_extension(cluster, kArguments), exec); !added) {
      return tl::unexpected<FleetFault>(std::move(added.error()));
    }
  }
  if (provider.environment != FleetProvider::Environment::kIgnore) {
    auto added = add_variables(fleet_extension(cluster, kVariables),
                               provider.environment == FleetProvider::Environment::kReplace, exec);
    if (!added) {
      return tl::unexpected<FleetFault>(std::move(added.error()));
    }
  }
  return exec;
}

}  // namespace kintsugi::topology
