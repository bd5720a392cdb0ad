#pragma once

#include <memory>
#include <string_view>

#include "http/handler.h"
#include "proxy/forwarding/forward.h"

namespace kintsugi::proxy {

/// A write whose body may be an object that was read over several plain servers, with the marker
/// that these do not store (AGG-1505): a create or update of a resource, as JSON or protobuf.
/// @param trail  what follows the cluster, with the query.
[[nodiscard]] bool may_carry_marker(const http::RequestHead& head, std::string_view trail);

/// forward() of such a write when its body is complete, which the marker is taken out of. Bodies
/// over the limit are refused (E12).
[[nodiscard]] std::unique_ptr<http::RequestHandler> forward_unmarked(ForwardLoop& shared,
                                                                     http::RequestHead head,
                                                                     http::ResponseStream& stream,
                                                                     shards::ShardClient& client);

}  // namespace kintsugi::proxy
