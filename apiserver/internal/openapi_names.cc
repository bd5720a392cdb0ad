#include "apiserver/internal/openapi_names.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/strings.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.";
constexpr std::string_view kCore = "io.k8s.api.core.v1.";
constexpr std::string_view kDefinitions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.";

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string reversed(std::string_view group) {
  const std::vector<std::string_view> labels = split(group, '.');
  std::string out;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    out += out.empty() ? "" : ".";
    out += *label;
  }
  return out;
}

/// "rbac.authorization" to "RbacAuthorization".
std::string joined_words(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    const bool letter = c >= 'a' && c <= 'z';
    if (!letter && (c < '0' || c > '9')) {
      begins = true;
      continue;
    }
    out += begins && letter ? static_cast<char>(c - 'a' + 'A') : c;
    begins = false;
  }
  return out;
}

std::string concat(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    out += part;
  }
  return out;
}

}  // namespace

std::string meta_component(std::string_view type_name) { return concat({kMeta, type_name}); }

std::string builtin_component(std::string_view group, std::string_view version,
                              std::string_view type_name) {
  if (is_one_of(type_name, {"ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "ListMeta",
                            "ShardInfo", "Status", "StatusDetails", "StatusCause", "DeleteOptions",
                            "Preconditions", "LabelSelector", "LabelSelectorRequirement", "Time",
                            "MicroTime", "FieldsV1", "Patch"})) {
    return meta_component(type_name);
  }
  if (is_one_of(type_name, {"ObjectReference", "LocalObjectReference", "EventSource"})) {
    return concat({kCore, type_name});
  }
  if (type_name == "Quantity") {
    return "io.k8s.apimachinery.pkg.api.resource.Quantity";
  }
  if (is_one_of(type_name, {"Scale", "ScaleSpec", "ScaleStatus"})) {
    return concat({"io.k8s.api.autoscaling.v1.", type_name});
  }
  if (group.empty()) {
    return concat({"io.k8s.api.core.", version, ".", type_name});
  }
  if (group == "apiextensions.k8s.io") {
    return concat({kDefinitions, version, ".", type_name});
  }
  return concat({"io.k8s.api.", group.substr(0, group.find('.')), ".", version, ".", type_name});
}

std::string custom_component(std::string_view group, std::string_view version,
                             std::string_view kind) {
  return concat({reversed(group), ".", version, ".", kind});
}

std::string operation_stem(std::string_view group, std::string_view version, bool builtin) {
  if (group.empty()) {
    return "Core" + joined_words(version);
  }
  constexpr std::string_view kOwn = ".k8s.io";
  if (builtin && group.ends_with(kOwn)) {
    group.remove_suffix(kOwn.size());
  }
  return joined_words(group) + joined_words(version);
}

}  // namespace kintsugi::apiserver::internal
