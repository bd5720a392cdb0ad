#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "base/secret.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::net {

/// Asks an HTTP proxy for a connection to a server (RFC 9110, 9.3.6), over one to the proxy that is
/// there. Destroying it cancels. Threads: its loop. Bound: 8 KiB of an answer's head.
class Tunnel final : public FdHandler {
 public:
  using Done = std::function<void(Expected<int>)>;
  /// Owns `fd` until `done` gets it back, in a later turn; that may destroy this object.
  /// @param target  "host:port". @param authorization  for the proxy, "": none
  /// @error kUnreachable  the proxy refuses, or has not answered within `timeout`
  Tunnel(Loop& loop, int fd, const std::string& target, const Secret& authorization,
         Duration timeout, Done done);
  ~Tunnel();
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  void on_ready(bool readable, bool writable) noexcept override;

 private:
  void send();
  void receive();
  void finish(Expected<int> result);
  void drop() noexcept;

  Loop& loop_;
  int fd_;
  std::string out_, head_;
  Done done_;
  Timer timer_;
};

}  // namespace kintsugi::net
