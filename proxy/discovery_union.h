#pragma once

#include <memory>
#include <vector>

#include "http/handler.h"
#include "net/loop.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// Answers a discovery document (/api, /apis and below, legacy or aggregated) with the union of
/// what several shards say (specs/topology.md 9.4, AGG-1601). All are asked at once; one that does
/// not answer within 5 s, or not with 200, is left out. When none says 200 the first answer is
/// passed on, and without any it is E6.
/// @param head     identity and forwarding headers as the shards shall see them; the target is
///                 below each client's URL.
/// @param clients  in the order in which what they say counts.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_union(
    net::Loop& loop, http::RequestHead head, http::ResponseStream& stream,
    const std::vector<shards::ShardClient*>& clients);

}  // namespace kintsugi::proxy
