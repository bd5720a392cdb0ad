#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/time.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

/// What the peer says of itself in its open.
struct AmqpPeer {
  std::string container, product, version;
};

/// One AMQP 1.0 connection to one component, for requests and their answers: SASL, open, a receiver
/// with a dynamic source, a sender to the management address. Bytes in, bytes out; no socket, no
/// clock. Made of Qpid Proton's engine; SASL and messages are our own. Source: MH-6, MH-11, BH-5.
/// Shape: at most `window` requests without an answer; receiver credit is always above that.
/// A peer that breaks the protocol, sends frames above 1 MiB, or messages of more than 8 MiB ends
/// the session; an answer that belongs to no request is counted and dropped. A part of an answer
/// that is nested more than 32 deep, or no AMQP, is null. A broker that refuses a request itself
/// gives the answer of a failed operation, with the condition as its text.
/// Threads: one at a time. Lifetime: texts that it gives out live as long as it.
class ManagementSession {
 public:
  enum class Sasl : std::uint8_t { kAnonymous, kExternal, kPlain };
  struct Params {
    ComponentKind kind = ComponentKind::kRouter;
    std::string container;  ///< ours
    std::string hostname;   ///< of the open
    Sasl sasl = Sasl::kAnonymous;
    std::string user;
    Secret password{};
    std::size_t window = 100;
    Duration heartbeat = seconds(16);  ///< idle timeout that both sides keep
    Duration open_deadline = seconds(10);
    Duration request_deadline = seconds(10);
    std::size_t max_message = 8U << 20U;
  };
  enum class State : std::uint8_t { kOpening, kReady, kClosed };

  ManagementSession(Params params, TimePoint now);
  ~ManagementSession();
  ManagementSession(const ManagementSession&) = delete;
  ManagementSession& operator=(const ManagementSession&) = delete;

  void receive(std::string_view bytes, TimePoint now);
  /// The transport ended: orderly, or with that error.
  void peer_closed(std::string_view error = {});
  /// What is to be written; consume() what was.
  [[nodiscard]] std::string_view output();
  void consume(std::size_t bytes);

  [[nodiscard]] State state() const noexcept;
  /// Why it is closed: the peer's condition and description, or ours; "" for an orderly end.
  [[nodiscard]] const std::string& fault() const noexcept;
  /// Whether the peer refused who we are (SASL, amqp:unauthorized-access).
  [[nodiscard]] bool is_unauthorized() const noexcept;
  [[nodiscard]] const AmqpPeer& peer() const noexcept;

  /// Requests that may be submitted now; 0 unless kReady and the peer gives credit.
  [[nodiscard]] std::size_t room() const noexcept;
  /// @param deadline  0: the session's. @returns the request's number, from 1 on; 0: no room().
  std::uint64_t submit(const ManagementRequest& request, TimePoint now, Duration deadline = {});
  struct Answered {
    std::uint64_t id = 0;
    std::optional<ManagementReply> reply;  ///< nullopt: its deadline passed, or the session closed
  };
  /// Answers in the order in which they came; call until nullopt. All that wait when the session
  /// closes come as such without a reply.
  [[nodiscard]] std::optional<Answered> take();
  [[nodiscard]] std::size_t in_flight() const noexcept;
  [[nodiscard]] std::uint64_t unknown_answers() const noexcept;

  /// When on_timer() is to be called, at the latest.
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  void on_timer(TimePoint now);
  /// Says close; output() has the rest, then the transport ends.
  void close();

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace kintsugi::workers
