#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "net/loop.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// What stands before the API path of a request for the index of OpenAPI v3,
/// "/shards/a/services/apiexport/c/e/clusters/*"; no data: something else is asked for.
/// @param path  as the client sent it, without the query.
[[nodiscard]] std::string_view openapi_index_root(std::string_view method, std::string_view path);

/// A virtual workspace's index of OpenAPI v3 as its shard tells it, but with links that lead there
/// the way that the request came: a client puts them behind the host alone, and the shard knows
/// nothing of what stands in front of its own path (AM-125).
/// @param head    target is the shard's, identity is stamped. @param root  of openapi_index_root.
/// @param client  outlives the answer. Threads: its loop.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_openapi_index(
    net::Loop& loop, http::RequestHead head, http::ResponseStream& stream,
    shards::ShardClient& client, std::string root);

}  // namespace kintsugi::proxy
