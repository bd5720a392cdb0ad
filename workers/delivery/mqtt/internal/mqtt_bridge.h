#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/alive.h"
#include "base/error.h"
#include "net/byte_stream.h"
#include "net/loop.h"
#include "workers/delivery/mqtt/internal/packet_bound.h"

namespace kintsugi::workers {

/// The far end of libmosquitto's socket: what the library writes goes to the broker and back, so
/// that names, TLS and deadlines are net's, nothing blocks the loop, and an acknowledgement leaves
/// the process in a later turn than the message came in. Threads: its loop's.
/// Lifetime: no callback may destroy it.
class MqttBridge final : private net::FdHandler {
 public:
  struct Params {
    net::ByteStream::Params to;
    std::string folder;  ///< where the socket's name is for a moment; exists
    std::size_t max_packet = std::size_t{4} << 20;  ///< that comes in [bytes]
    /// Asked before bytes go out: false ends the connection. Empty: always.
    std::function<bool()> may_send;
  };
  struct Callbacks {
    /// The broker is reached. `join(path)` has to be called within: connects the library there.
    std::function<void()> on_open;
    std::function<void(const std::string& why)> on_closed;  ///< the last call
  };
  MqttBridge(net::Loop& loop, Params params, Callbacks callbacks);
  ~MqttBridge();
  MqttBridge(const MqttBridge&) = delete;
  MqttBridge& operator=(const MqttBridge&) = delete;

  /// Lets `connect` connect a socket to the path that it gets, and takes the other end.
  /// @error kIo
  [[nodiscard]] Expected<void> join(const std::function<bool(const std::string& path)>& connect);
  [[nodiscard]] std::size_t queued() const noexcept { return stream_.queued() + inward_.size(); }

 private:
  void on_ready(bool readable, bool writable) noexcept override;
  void on_hangup() noexcept override;
  void take(std::string_view bytes);
  void outward();
  void write_inward();
  void end(const std::string& why);

  net::Loop& loop_;
  Params params_;
  Callbacks callbacks_;
  PacketBound bound_;
  int fd_ = -1;
  std::string inward_;  // what the library's socket did not take
  bool posted_ = false, ended_ = false;
  net::ByteStream stream_;
  Alive alive_;
};

}  // namespace kintsugi::workers
