#pragma once

#include <optional>
#include <string_view>

#include "auth/impersonation_gate.h"
#include "base/error.h"
#include "http/handler.h"
#include "serving/identity.h"

/// The one place where the proxy judges Impersonate-*, whatever the form of the path: logical
/// clusters, clusters/*, virtual workspaces, below /shards and /partitions, mounts, entries of the
/// mapping file, merged reads and kinds of its own. Source: SE-051.
namespace kintsugi::proxy {

/// Whether a target leads into a virtual workspace or to clusters/*, also below /shards/<shard> and
/// /partitions/<cluster>/<partition>, and however it is escaped. @param target  path, with or
/// without a query
[[nodiscard]] auth::ImpersonationPlace place_of(std::string_view target);

/// What the client may not ask for. nullopt: whatever is asked for may be passed on.
/// @param place  where the request leads
/// @param identity  null: the proxy does not know who asks, a shard finds out
/// @error as auth::admit_impersonation
[[nodiscard]] std::optional<Error> gate_impersonation(const http::HeaderList& headers,
                                                      const serving::ConnectionIdentity* identity,
                                                      auth::ImpersonationPlace place);

/// Removes headers by which parts of the system speak to each other: a client's say nothing
/// (KK-283, KK-284). In any letter case, also with `_` for `-`.
void strip_internal_headers(http::HeaderList& headers);

}  // namespace kintsugi::proxy
