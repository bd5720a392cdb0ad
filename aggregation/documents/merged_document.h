#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/documents/discovery_merge.h"
#include "aggregation/documents/document_cache.h"
#include "aggregation/documents/document_request.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/loop.h"
#include "topology/shard_pool.h"

namespace kintsugi::aggregation {

/// Counters of one loop.
struct DocumentStats {
  std::uint64_t answered = 0;     ///< merged documents, 304 too
  std::uint64_t built = 0;        ///< those that had to be made
  std::uint64_t stale = 0;        ///< parts of shards that could not be asked
  std::uint64_t differences = 0;  ///< AGG-1604
};

/// What the merged documents of one loop share. Outlives every request. Threads: its loop.
struct DocumentLoop {
  net::Loop& loop;
  topology::ShardPool& pool;
  http::Handler& local;  ///< discovery of the proxy's own kinds
  std::shared_ptr<DocumentCache> cache;
  Join join = Join::kUnion;
  Duration timeout = seconds(5);  ///< of one shard
  std::size_t at_once = 16;       ///< shards that are asked at the same time for one request
  DocumentStats stats = {};
  topology::ShardPool* own_pool = nullptr;  ///< with the proxy's own credential
};

struct DocumentRoute {
  struct Source {
    topology::ShardId shard = 0;
    std::string uid;     ///< of the slot
    std::string target;  ///< below its base URL, without a query
  };
  DocumentRequest request;
  std::vector<Source> sources;  ///< by slot
  bool virtual_url = false;     ///< below the shards' virtual workspace URLs
  std::string root;             ///< decoded path that the client put before request.path
  /// For the proxy's own kinds, "/clusters/*/apis"; "": they are not shown here.
  std::string local_target;
  /// That are served there; empty: all. Groups, versions and lists without a resource that has one
  /// of them are left out, or 404 where they are named.
  std::vector<std::string_view> verbs;
  /// @{ Where alone resources are shown that all shards serve once they are named as
  /// MergeRoute::path names them: kcp's own exports, in root. What it says of others does not
  /// count, nor does its refusal.
  std::optional<Source> exported = std::nullopt;
  std::function<bool(std::string_view group, std::string_view resource)> is_exported = {};
  /// @}
  bool reviewed = false;  ///< the shards are asked with the proxy's own credential
};

/// Answers a discovery or OpenAPI document, or /version, with what the shards say, all of them
/// asked as the caller, each with the ETag of what is known of it (AGG-1601 to AGG-1605). What is
/// known of a shard that cannot be asked stays (AGG-1602), if another one or the proxy itself has
/// let the caller in. A shard's 401, 403 or 508 is passed on; 503 when nothing is known at all.
/// @param head  a GET, with the identity and forwarding headers that the shards shall see.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_document(DocumentLoop& shared,
                                                                    http::RequestHead head,
                                                                    http::ResponseStream& stream,
                                                                    DocumentRoute route);

}  // namespace kintsugi::aggregation
