#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"

namespace kintsugi::server {

/// Asks servers for /readyz, one after the other, each until it says 200. Threads: the loop's.
class ReadyProbe {
 public:
  struct Target {
    std::string host;
    /// Asked before every attempt; 0: not known yet.
    std::function<std::uint16_t()> port;
    std::string name = {};  ///< of the process
  };
  /// @param tls    what certificates are verified with.
  /// @param ready  once, when the last has answered; may destroy this object.
  ReadyProbe(net::Loop& loop, std::shared_ptr<net::TlsContext> tls, std::vector<Target> targets,
             std::function<void()> ready);
  /// Whom it waits for, and why: "shard-1", "it does not listen yet".
  [[nodiscard]] std::pair<std::string, std::string> waits() const;

 private:
  void probe();
  void ask(const std::string& host, std::uint16_t port);

  net::Loop& loop_;
  const std::shared_ptr<net::TlsContext> tls_;
  const std::vector<Target> targets_;
  const std::function<void()> ready_;
  std::size_t next_ = 0;  ///< all before have answered
  std::string why_;       ///< that one has not
  net::Timer timer_;
  std::unique_ptr<net::Upstream> upstream_;
  std::unique_ptr<net::Call> call_;
};

}  // namespace kintsugi::server
