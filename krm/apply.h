#pragma once

#include "base/error.h"
#include "krm/json.h"
#include "krm/managed_fields.h"

/// Server-side apply (AM-217 to AM-250), as structured-merge-diff v6 and the field
/// managers of Kubernetes do it: pure, no defaults, no validation beyond the schema's types.
namespace kintsugi::krm {

/// The object after `context.manager` applied `config`, with its metadata.managedFields.
/// `config` must be of the context's apiVersion; metadata.resourceVersion and so on come from it
/// where it has them, else from `live`. What the manager applied before and leaves out now goes,
/// unless somebody else owns it. An apply that changes no field returns `live` with perhaps other
/// entries; only changes move the time of the manager's entry.
/// The manager "kubectl" takes over fields that equal the annotation of client-side apply and keeps
/// that annotation up to date (AM-242).
/// @param live   the stored object in the context's version; an object with apiVersion and kind
///               (typed kinds: and what they always write) when there is none.
/// @param force  takes conflicting fields over.
/// @error kBadRequest  `metadata.managedFields must be nil` (AM-229).
/// @error kInternal    unclassified(): `failed to create typed patch object (<ns>/<name>;
///        <group>/<version>, Kind=<kind>): …` (AM-232, AM-233).
/// @error kConflict    fields of others would change, one cause each (AM-219 to AM-221).
[[nodiscard]] Expected<Json> apply_configuration(const OwnershipContext& context, bool force,
                                                 const Json& live, const Json& config);

/// `live` with everything that `config` states, without owners: what a MutatingAdmissionPolicy
/// does.
/// @param schema  null: free form
/// @error kInvalid  `failed to convert patch object to typed object: …`, `invalid
///        ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.list`, `failed
///        to merge patch: …`
[[nodiscard]] Expected<Json> merge_applied(const Schema* schema, const Json& live,
                                           const Json& config);

/// Maps and lists that an apply took the last member of, but that somebody states, become empty.
/// The reference makes them null, which custom kinds then refuse, so that such a member could never
/// be given up (AM-250). Null that `config` states stays.
void keep_emptied(const Schema* schema, const Json& live, const Json& config, Json& object);

/// "/v1, Kind=ConfigMap", "ex.io/v1, Kind=Widget": how Go prints the kind of an object; "/, Kind="
/// stands for what is missing or malformed.
[[nodiscard]] std::string kind_text(const Json& object);

}  // namespace kintsugi::krm
