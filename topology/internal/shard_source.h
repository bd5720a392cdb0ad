#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/informer.h"
#include "topology/internal/peers.h"

namespace kintsugi::topology {

/// Where the Shard objects are read: in `root` at the root shard or, with peers, in their admin
/// virtual workspace, which shows the same (FP-154). While no peer has shown
/// them for `limit` they are read at the root shard, and one is looked for every `pause`.
/// Threads: its loop's.
class ShardSource {
 public:
  struct Params {
    net::Upstream* root = nullptr;           ///< null: there is no other path than the peers
    std::vector<net::UpstreamParams> peers;  ///< none: the root shard
    Duration limit = seconds(5);
    Duration pause = seconds(30);
    http::HeaderList headers;
    std::uint64_t seed = 1;
  };
  ShardSource(net::Loop& loop, Params params, shards::InformerSink& sink);

  /// Peers are asked at once.
  void start();
  /// The root shard serves: its identities are known.
  void root_serves();
  void tell_answers(shards::Informer::Heard heard) { informer_.tell_answers(std::move(heard)); }
  void set_peer_tls(const std::vector<std::shared_ptr<net::TlsContext>>& tls);

 private:
  void take_answer(int status);
  void use_root();
  void use_peers();
  void look_for_peer();

  net::Loop& loop_;
  const Params params_;
  std::unique_ptr<Peers> peers_;  ///< null: none
  shards::Informer informer_;
  bool at_root_;
  bool shown_ = false;    ///< the last answer of the peers was one
  bool started_ = false;  ///< the informer has a server
  bool serving_ = false;  ///< the root shard
  bool overdue_ = false;  ///< it is to be asked as soon as it serves
  net::Timer limit_, look_;
  std::unique_ptr<net::Call> probe_;
};

}  // namespace kintsugi::topology
