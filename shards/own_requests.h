#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "net/upstream.h"
#include "shards/own_rights.h"

/// What the proxy may ask with its own credential: which can be an administrator's, since kcp opens
/// `clusters/*` to system:masters only. Source: SE-055, SE-148.
namespace kintsugi::shards {

/// Whether a request is one of the role. Nothing of a caller's identity may be in it: only headers
/// that own requests have. @param prefix  path of the server's URL, in front of the target
[[nodiscard]] bool is_own_request(OwnRole role, const http::RequestHead& head,
                                  const std::string& prefix = {});

/// Where an embedded shard is told of a Partition that a slice in `cluster` names (KK-201): POST of
/// a PartitionNote, the only thing that the proxy writes for itself.
[[nodiscard]] std::string partition_note_target(std::string_view cluster);

/// @{ net::fetch and net::stream of role kTopology, for whatever has the proxy's own credential: a
/// request that is not one is logged, not sent, and ends with kForbidden in a later turn.
[[nodiscard]] std::unique_ptr<net::Call> own_fetch(
    net::Loop& loop, net::Upstream& upstream, net::FetchRequest request,
    std::function<void(Expected<net::FetchResponse>)> done);
[[nodiscard]] std::unique_ptr<net::Call> own_stream(net::Loop& loop, net::Upstream& upstream,
                                                    net::FetchRequest request,
                                                    net::StreamCallbacks callbacks);  /// @}

}  // namespace kintsugi::shards
