#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/forwarding/backend_check.h"
#include "proxy/forwarding/backend_trust.h"
#include "server/internal/proxy_files.h"
#include "topology/feed.h"

namespace kintsugi::server {

/// How callers get to servers: the pairs of shards and of the mapping file's entries.
struct BackendPairs {
  ShardTls tls;
  std::vector<StaticAccess> shards;                 ///< source `static`
  std::shared_ptr<const proxy::RouteTable> routes;  ///< may be null
};

/// Entries of the mapping file whose pairs assert identities; one of those with equal servers and
/// files. @param file  its name, for messages
[[nodiscard]] std::vector<proxy::BackendTarget> mapping_targets(const BackendPairs& pairs,
                                                                const std::string& file);
/// A shard, unless callers are impersonated there. nullopt: nothing is asserted there.
[[nodiscard]] std::optional<proxy::BackendTarget> shard_target(const BackendPairs& pairs,
                                                               const topology::ShardSpec& shard);

/// Has every server judged that callers are sent to (FP-162): those that are
/// known when the proxy starts before anything is forwarded, shards that come later or move as soon
/// as they are known, all of them again before a reload is taken. Threads: one loop.
class BackendJudge final : private topology::FeedListener {
 public:
  /// @param fault  one of the first servers takes the pair for a user's. Once.
  /// @param blocked  one that came or told later does: a shard by its name, or "" for one of the
  ///                 mapping file
  BackendJudge(net::Loop& loop, std::shared_ptr<proxy::BackendTrust> trust,
               std::function<void(std::string)> fault,
               std::function<void(const std::string&)> blocked);
  ~BackendJudge();

  /// The first servers, and what comes from now on. `feed` must outlive this or stop().
  void start(topology::Feed& feed, BackendPairs pairs, const std::string& mapping_file);
  void stop() noexcept;
  /// The shards that are known now are all of the first ones.
  void shards_listed();
  /// Whether these pairs may be taken over. A newer question ends an older one, which is told
  /// nothing. @error kConfig as BackendCheck
  void judge(BackendPairs pairs, const std::string& mapping_file,
             std::function<void(Expected<void>)> done);
  /// They were taken over.
  void use(BackendPairs pairs);

 private:
  void on_change(const topology::ShardChanged& change) override;
  void watch(const topology::ShardSpec& shard);
  void first_tried(const std::string& name);
  void open_if_tried();
  void told(const std::string& name, const Expected<void>& verdict);

  net::Loop& loop_;
  std::shared_ptr<proxy::BackendTrust> trust_;
  std::function<void(std::string)> fault_;
  std::function<void(const std::string&)> blocked_;
  topology::Feed* feed_ = nullptr;
  BackendPairs pairs_;
  std::map<std::string, std::unique_ptr<proxy::BackendCheck>>
      checks_;                               ///< by shard; "": the mapping file
  std::map<std::string, std::string> urls_;  ///< of shards that are judged
  std::set<std::string> first_;              ///< were not tried yet
  bool listed_ = false;
  std::unique_ptr<proxy::BackendCheck> asked_;  ///< of judge()
};

}  // namespace kintsugi::server
