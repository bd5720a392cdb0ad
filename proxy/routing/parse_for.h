#pragma once

#include "http/handler.h"
#include "krm/request_target.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// The target of a request as every part of the proxy reads it: in front of plain servers, what
/// stands behind the subresource `proxy` is theirs (SE-026). Any thread.
[[nodiscard]] inline krm::RequestTarget parse_for(const topology::Snapshot& facts,
                                                  const http::RequestHead& head) {
  const bool plain = !facts.shards().empty() && facts.shards().front()->spec.plain;
  return krm::parse_target(head.method, head.target, {.shard = false, .opaque_proxy = plain});
}

}  // namespace kintsugi::proxy
