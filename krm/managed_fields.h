#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/internal/field_set.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// One entry of metadata.managedFields. Identity: manager, operation, subresource, and apiVersion
/// for operation Update.
struct ManagedFieldsEntry {
  std::string manager;
  std::string operation;  ///< "Apply" or "Update"
  std::string api_version;
  std::string time;  ///< RFC 3339, "" = none
  std::string subresource;
  FieldSet fields;

  [[nodiscard]] bool same_owner(const ManagedFieldsEntry& other) const noexcept;
};
using ManagedFields = std::vector<ManagedFieldsEntry>;

/// @error kBadRequest  entries that Kubernetes would not decode (operation, apiVersion,
/// fieldsType).
[[nodiscard]] Expected<ManagedFields> parse_managed_fields(const Json& list);
/// Sorted: Apply before Update, then time, manager, apiVersion, subresource. Entries without
/// fields are left out; null when none is left.
[[nodiscard]] Json managed_fields_json(ManagedFields entries);

/// "kubectl/v1.30 (linux…)" -> "kubectl"; `explicit_manager` wins; else "unknown" (8.1 rule 5).
[[nodiscard]] std::string field_manager_name(std::string_view explicit_manager,
                                             std::string_view user_agent);

/// Which fields a write through an endpoint can own (8.1 rule 3).
enum class OwnedPart : std::uint8_t {
  kAll,            ///< no status subresource
  kWithoutStatus,  ///< main endpoint
  kOnlyStatus,     ///< /status
  kWithoutSpec,    ///< /status of kinds whose metadata it takes
};

/// What tracking has to know about a write by create, update or a patch that is not apply.
struct OwnershipContext {
  const Schema* schema = nullptr;  ///< null: free form
  std::string_view manager;
  std::string_view api_version;
  std::string_view subresource;
  std::string_view now;  ///< RFC 3339; "": entries keep their time, new ones have none
  OwnedPart part = OwnedPart::kAll;
  /// Schema of another version that entries mention; nullopt: not served any more, the entry goes.
  /// Unset: every version is as `schema`.
  std::function<std::optional<const Schema*>(std::string_view api_version)> schema_of;
};

/// Keeps metadata.managedFields of `object`, as it is about to be stored (8.1 rules 5 to 8).
/// To be called before system fields and hooks change `object` further, but after defaults.
/// managedFields in `object` are those the client sent: an empty list or a list of one empty entry
/// resets, null, absent or malformed keeps those of `old` (always with a subresource).
/// @param old  the stored object, null on create.
void track_update(const OwnershipContext& context, const Json* old, Json& object);

/// True when the objects differ in more than times of managedFields (8.1 rule 8): a write is worth
/// a new revision. resourceVersion is not looked at.
[[nodiscard]] bool differs_beyond_times(const Json& old, const Json& object);

/// Merges the oldest Update entries into "ancient-changes", per apiVersion, until 10 remain.
void cap_update_entries(ManagedFields& entries);

}  // namespace kintsugi::krm
