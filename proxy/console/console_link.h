#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/console/internal/viewer_scope.h"

/// A question of a data loop that the console answers on the control loop (OP-704).
namespace kintsugi::proxy {

/// The client's end, on the data loop.
class LinkedRequest {
 public:
  virtual void take_head(int status, const http::HeaderList& headers, bool end) noexcept = 0;
  virtual void take_data(const std::string& bytes, bool end) noexcept = 0;
  virtual void take_reset(Errc cause) noexcept = 0;

 protected:
  ~LinkedRequest() = default;
};

/// What both ends share.
struct ConsoleLink {
  explicit ConsoleLink(net::Loop& loop) : data(loop) {}
  net::Loop& data;
  LinkedRequest* request = nullptr;  ///< the data loop's; null: the client has gone
  std::string address;               ///< of the client
  /// Bytes on their way to the data loop, and those that its stream has not handed over, as it has
  /// said last.
  std::atomic<std::size_t> posted{0}, unsent{0};
};

struct ConsoleAsked {
  http::RequestHead head;
  ViewerScope scope;
  std::shared_ptr<ConsoleLink> link;
};

/// The way from data loops to the console. Any thread; what is told is taken in on the control
/// loop, in its order.
struct ConsoleDoor {
  std::function<void(std::shared_ptr<ConsoleAsked>)> ask;
  /// The client's stream has ended, or its queue has become short again. May be told of what the
  /// console does not know.
  std::function<void(std::shared_ptr<ConsoleLink>, Errc)> left;
  std::function<void(std::shared_ptr<ConsoleLink>)> drained;
};

/// The sending half as the console has it. Threads: the control loop's.
class LinkStream final : public http::ResponseStream {
 public:
  explicit LinkStream(std::shared_ptr<ConsoleLink> link);
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override;
  void send_data(std::string_view bytes, bool end) noexcept override;
  void send_data(SharedBytes bytes, bool end) noexcept override;
  void send_trailers(const http::HeaderList& /*trailers*/) noexcept override {}
  void reset(Errc cause) noexcept override;
  void consume(std::size_t /*bytes*/) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override;
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }
  void close_connection_after() noexcept override {}

 private:
  std::shared_ptr<ConsoleLink> link_;
  http::PeerInfo peer_;
};

}  // namespace kintsugi::proxy
