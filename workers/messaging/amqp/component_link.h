#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "net/byte_stream.h"
#include "net/loop.h"
#include "workers/messaging/amqp/management_session.h"

namespace kintsugi::workers {

/// The connection to one component: a net::ByteStream and a ManagementSession, made again whenever
/// they end, with back-off. Source: MR-30, MR-28, MH-11.
/// Shape: requests of one turn leave together in its flush pass; a stream that takes nothing holds
/// at most 1 MiB and one more part, the rest waits as frames of the session.
/// Threads: its loop. Lifetime: silent once it is destroyed, which may be at any time but inside of
/// its callbacks.
class ComponentLink {
 public:
  struct Params {
    std::string host;     ///< of the component; of its certificate too
    std::string address;  ///< where to connect, `host` when empty
    std::uint16_t port = 0;
    std::shared_ptr<const net::TlsContext> tls;  ///< null: plain text
    ManagementSession::Params session;
    Duration least_wait = milliseconds(500), most_wait = seconds(30);  ///< before the next attempt
    std::uint64_t seed = 1;
  };
  struct Callbacks {
    std::function<void(const AmqpPeer&)> on_ready;
    /// @param reply  nullptr: its deadline passed. Requests in flight when the link is lost are not
    ///        answered: on_lost() is for all of them.
    std::function<void(std::uint64_t id, const ManagementReply* reply)> on_answer;
    /// A connection, or an attempt to get one, has ended; the next follows. Not after stop().
    std::function<void(const std::string& why, bool unauthorized)> on_lost;
    std::function<void()> on_room;  ///< room() is not 0
  };

  /// Dials at once. Callbacks come in later turns, but on_lost() from reset().
  ComponentLink(net::Loop& loop, Params params, Callbacks callbacks);
  ~ComponentLink();
  ComponentLink(const ComponentLink&) = delete;
  ComponentLink& operator=(const ComponentLink&) = delete;

  [[nodiscard]] bool is_ready() const noexcept;
  [[nodiscard]] std::size_t room() const noexcept;
  /// @param deadline  0: the session's. @returns the request's number on this connection, 0: no
  ///        room. Numbers begin anew with each on_ready().
  std::uint64_t submit(const ManagementRequest& request, Duration deadline = {});
  /// In a flush pass: what was submitted leaves in this one.
  void flush_now() noexcept;
  /// Ends the connection; the next follows. No effect while there is none.
  void reset(const std::string& why);
  /// The same of a connection that did what it was for: that is no failure, so the next one follows
  /// after the shortest wait, however short this one was.
  void renew(const std::string& why);
  /// Ends it for good, without a call.
  void stop();
  /// Answers that belonged to no request, of all connections.
  [[nodiscard]] std::uint64_t unknown_answers() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kintsugi::workers
