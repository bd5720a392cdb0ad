#pragma once

#include <memory>
#include <string_view>

#include "http/handler.h"
#include "net/loop.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// Discovery documents of a logical cluster with the proxy's own kinds merged in (T-02):
/// /apis (legacy and aggregated), /apis/apis.kcp.io and /apis/apis.kcp.io/v1alpha1, and of
/// /openapi/v3 the index and the document of apis.kcp.io/v1alpha1, whose hash is made of those of
/// its parts; /openapi/v2. A shard that is down does not hide the proxy's kinds.
class Overlay {
 public:
  /// @param local answers discovery of the proxy's kinds for a target /clusters/<name>/….
  Overlay(net::Loop& loop, http::Handler& local);
  ~Overlay();

  /// @param head   target is the shard's (/clusters/<name>/apis…), identity is stamped.
  /// @param client the owner shard, null while it cannot be reached at all.
  /// @param root   what the client put before the API path: links of OpenAPI begin with it, since
  ///               clients compare them with their own prefix (AM-125).
  [[nodiscard]] std::unique_ptr<http::RequestHandler> answer(http::RequestHead head,
                                                             http::ResponseStream& stream,
                                                             shards::ShardClient* client,
                                                             std::string_view cluster,
                                                             std::string_view root);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::proxy
