#pragma once

#include <memory>
#include <string>

#include "aggregation/asking/merge_query.h"
#include "aggregation/watch/watches.h"
#include "http/handler.h"

namespace kintsugi::aggregation {

class Permit;

/// Starts a merged watch (AGG-701, AGG-801): the events of all shards pass as bytes on one
/// stream, with bookmarks of our own that carry the composite cursor. A shard that goes away is
/// asked again from where it was while the others go on. Clients that ask the same have one stream
/// to each shard (watch_group.h); what is one client's alone, initial events and what it missed,
/// waits for it.
/// @param permit  with a reviewed route, and allowed: what the watch lives by
[[nodiscard]] std::unique_ptr<http::RequestHandler> make_merged_watch(
    Watches& watches, http::RequestHead head, http::ResponseStream& stream, MergeRoute route,
    MergeQuery query, std::string accept, std::shared_ptr<Permit> permit = nullptr);

/// The slots have changed: shards that joined are asked, those that left end the stream.
void follow_slots(MergedWatch& watch);

}  // namespace kintsugi::aggregation
