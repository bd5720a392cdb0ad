#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/catalog/api_catalog.h"
#include "krm/json.h"

/// What the status of an APIBinding says, as a function of what is known. Conditions, reasons and
/// messages are those of kcp. Source: AM-499 to AM-507.
namespace kintsugi::controlplane {

/// Who has a resource of a logical cluster: an APIBinding, or a CustomResourceDefinition.
struct ResourceHolder {
  std::string binding;
  bool definition = false;
};

/// Where the facts come from, all about the binding's own cluster.
struct BindingSources {
  std::function<std::optional<ExportRef>(std::string_view path, std::string_view name)> find_export;
  std::function<std::optional<krm::Json>(const ExportRef& ref)> get_export;
  std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>
      get_schema;
  /// Takes the resource for this binding; else who has it.
  std::function<std::optional<ResourceHolder>(std::string_view group, std::string_view plural)>
      take;
  /// With which names of others those of the schema collide; "": none.
  std::function<std::string(const krm::Json& schema)> names_conflict;
  /// Schemas of this UID are valid: they were looked at before. May be empty.
  std::function<bool(std::string_view uid)> is_valid;
  /// Whether anything is served by this name (identity "": not of a bound API).
  std::function<bool(std::string_view group, std::string_view resource, std::string_view identity)>
      is_served;
};

/// Brings status up to date.
/// @returns the schemas that its boundResources name, as far as they were read: they must be stored
///          before the status is.
std::vector<krm::Json> settle_binding(krm::Json& binding, std::string_view cluster,
                                      const BindingSources& sources);

/// The part of it about permission claims, given the export.
void settle_claims(krm::Json& binding, const krm::Json& api_export, const BindingSources& sources);

/// Which names of a schema others of its group have: as `settle_binding` words it, "" for none.
struct TakenNames {
  std::vector<std::string> resources;  ///< plural, singular, short names
  std::vector<std::string> kinds;      ///< kind, list kind
};
[[nodiscard]] std::string find_names_conflict(const krm::Json& schema, const TakenNames& taken);

}  // namespace kintsugi::controlplane
