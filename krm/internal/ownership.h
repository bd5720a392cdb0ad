#pragma once

#include "krm/managed_fields.h"

/// What track_update() and apply_configuration() share.
namespace kintsugi::krm {

/// Fields that nobody owns (AM-237).
[[nodiscard]] const FieldSet& never_owned();

/// What of a set a write through an endpoint can own.
[[nodiscard]] FieldSet owned_part(const FieldSet& set, OwnedPart part);

/// metadata.managedFields of an object; none when they are absent or malformed.
[[nodiscard]] ManagedFields stored_entries(const Json* object);

/// Sets metadata.managedFields; null removes them.
void write_entries(Json& object, Json entries);

/// Entries without those of versions that are no longer served; sets adapted to the schemas of
/// today (AM-246, AM-247).
[[nodiscard]] ManagedFields reconciled_entries(const OwnershipContext& context,
                                               ManagedFields entries);

/// Schema of the version of an entry; nullopt when it is no longer served.
[[nodiscard]] std::optional<const Schema*> schema_of_entry(const OwnershipContext& context,
                                                           std::string_view api_version);

}  // namespace kintsugi::krm
