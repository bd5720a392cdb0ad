#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/alive.h"
#include "controlplane/clusters/root_view.h"
#include "net/tls.h"
#include "net/upstream.h"

namespace kintsugi::controlplane {

/// Requests to other shards over HTTPS, with this shard's certificate (SE-148). Connections are
/// kept by address, and go with the last Shard that has it. Threads: one loop.
class PeerShards {
 public:
  using Answered = std::function<void(Expected<net::FetchResponse>)>;
  /// @param root must outlive it. @param tls  client context with the shard's certificate.
  PeerShards(net::Loop& loop, const RootView& root, std::shared_ptr<net::TlsContext> tls);
  ~PeerShards();
  PeerShards(const PeerShards&) = delete;
  PeerShards& operator=(const PeerShards&) = delete;

  /// @param shard name of its Shard. @param done called once, in a later turn; not at all when this
  /// object is gone. @error kUnavailable no such Shard; kConfig its address is none; those of
  /// net::fetch
  void send(const std::string& shard, net::FetchRequest request, Answered done);
  /// Names of all Shards but `own`.
  [[nodiscard]] std::vector<std::string> others(const std::string& own) const;

 private:
  void later(std::function<void()> function);
  void forget_unused();

  net::Loop& loop_;
  const RootView& root_;
  std::shared_ptr<net::TlsContext> tls_;
  std::map<std::string, std::unique_ptr<net::Upstream>> upstreams_;  // by base URL
  std::map<std::uint64_t, std::unique_ptr<net::Call>> calls_;
  std::uint64_t next_call_ = 0;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
