#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::cmd {

/// Whether a client pair asserts identities. Where the mapping file names none, shards are reached
/// with the pair of --shards-kubeconfig (specs/front-proxy.md R-03). That one may be an
/// administrator's: shards that do not take it for a proxy's would let every caller do everything.
/// So a shard is asked first who somebody is whose name is in the headers; until it has answered
/// nothing may be forwarded. Threads: one loop.
class BackendCheck {
 public:
  /// @param done  once, in a later turn. @error kConfig the pair does not assert identities.
  ///              An answer that cannot be had is asked for again.
  BackendCheck(net::Loop& loop, net::UpstreamParams shard,
               std::function<void(Expected<void>)> done);
  ~BackendCheck();

 private:
  void ask();
  net::Loop& loop_;
  std::unique_ptr<net::Upstream> shard_;
  std::unique_ptr<net::Call> call_;
  std::function<void(Expected<void>)> done_;
  net::Timer again_;
};

}  // namespace kintsugi::cmd
