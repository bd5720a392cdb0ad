#pragma once

#include <optional>
#include <string_view>

#include "auth/impersonation_gate.h"
#include "base/error.h"
#include "http/handler.h"
#include "krm/request_target.h"
#include "proxy/routing/request.h"
#include "serving/identity.h"
#include "topology/snapshot.h"

/// The one place where the proxy judges Impersonate-*, whatever the form of the path: logical
/// clusters, clusters/*, virtual workspaces, below /shards and /partitions, mounts, entries of the
/// mapping file, merged reads and kinds of its own. Source: SE-051.
namespace kintsugi::proxy {

/// Whether a target leads into a virtual workspace or to clusters/*, also below /shards/<shard> and
/// /partitions/<cluster>/<partition>, also for whoever decodes before splitting or drops empty
/// segments. @param text  what `target` was made of
[[nodiscard]] auth::ImpersonationPlace place_of(const krm::RequestTarget& target,
                                                std::string_view text);
/// The same of a path, with or without a query.
[[nodiscard]] auth::ImpersonationPlace place_of(std::string_view text);

/// What the client may not ask for. nullopt: whatever is asked for may be passed on.
/// @param place  where the request leads
/// @param identity  null: the proxy does not know who asks, a shard finds out
/// @error as auth::admit_impersonation
[[nodiscard]] std::optional<Error> gate_impersonation(const http::HeaderList& headers,
                                                      const serving::ConnectionIdentity* identity,
                                                      auth::ImpersonationPlace place);

/// Judges what a request asks for by Impersonate-*, once: what one gate has let pass is not judged
/// again, unless the request goes on to where less may be asked for.
/// @param leads_to  path where it goes on to, other than its target says; "": nowhere. clusters/*
/// of
///        plain servers is a place like others.
/// @error as gate_impersonation()
[[nodiscard]] std::optional<Error> judge_impersonation_of(
    Request& request, const serving::ConnectionIdentity* identity, const topology::Snapshot& facts,
    std::string_view leads_to = {});

/// Removes headers by which parts of the system speak to each other: a client's say nothing
/// (KK-283, KK-284). In any letter case, also with `_` for `-`.
void strip_internal_headers(http::HeaderList& headers);

}  // namespace kintsugi::proxy
