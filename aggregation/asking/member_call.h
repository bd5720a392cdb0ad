#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/gunzip.h"
#include "http/handler.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "serving/fair_seats.h"
#include "shards/shard_client.h"

namespace kintsugi::aggregation {

/// A GET to one shard on behalf of a merged read; the other half of flow control is the caller's.
/// Of a shard that is far a list is asked for compressed (GR-507). A body that is, also where
/// identity was asked for, comes out as if it were not (AGG-1402), as fast as the caller takes it.
/// Threads: its loop.
class MemberCall final : private http::ResponseHandler {
 public:
  /// Gets what comes back. None of these may destroy the call; they may close() it. What one of
  /// them throws closes the call, and on_fault() follows in place of everything else.
  class Listener {
   public:
    virtual void on_head(const http::ResponseHead& head) = 0;
    /// The caller gives credit for the bytes (consume) when it is done with them.
    virtual void on_data(std::string_view bytes) = 0;
    /// Once, last. kOk: the body is complete.
    virtual void on_end(Errc cause) = 0;
    /// Once, last: ends the read with 500 (asking/merge_guard.h).
    virtual void on_fault() = 0;

   protected:
    ~Listener() = default;
  };

  MemberCall(net::Loop& loop, Listener& listener) : loop_(loop), listener_(listener) {}
  ~MemberCall() override { close(); }
  MemberCall(const MemberCall&) = delete;
  MemberCall& operator=(const MemberCall&) = delete;

  /// Whose turn it waits for, at which seats, how long.
  struct Turn {
    serving::FairSeats* seats = nullptr;  ///< null: it does not wait
    serving::FairSeats::Who who = {};
    Duration wait = {};
  };
  /// Sends the request, when it is its turn; on_end comes later if it cannot be sent. It has its
  /// seat until the shard begins to answer, so that no part of a read that runs keeps another one
  /// waiting. Who gets none hears what a shard says that has no room: 429, Retry-After, a Status.
  /// @param head its target is below the shard's base URL. @return false: the shard is down,
  /// nothing comes.
  [[nodiscard]] bool open(shards::ShardClient& client, net::UpstreamClass kind,
                          http::RequestHead head, const Turn& turn);
  [[nodiscard]] bool open(shards::ShardClient& client, net::UpstreamClass kind,
                          http::RequestHead head) {
    return open(client, kind, std::move(head), Turn());
  }
  /// Nothing comes any more.
  void close() noexcept;
  [[nodiscard]] bool running() const noexcept {
    return stream_ != nullptr || packed_ != nullptr || (opening_ != nullptr && opening_->waits);
  }
  void consume(std::size_t bytes) noexcept;

 private:
  void on_head(http::ResponseHead head, bool end) noexcept override;
  void on_data(std::string_view bytes, bool end) noexcept override;
  void on_close(Errc cause) noexcept override;

  /// A compressed body.
  struct Packed {
    explicit Packed(net::Loop& loop) : later(loop) {}
    http::Gunzip gunzip;
    std::string waiting;   ///< received and not unpacked
    std::size_t read = 0;  ///< bytes of `waiting` that are
    std::size_t held = 0;  ///< unpacked bytes that the caller has not consumed
    bool may_have_more = false;
    bool unpacking = false;
    std::optional<Errc> end;  ///< of the stream
    net::Timer later;
  };
  /// Until the shard begins to answer.
  struct Opening {
    Opening(net::Loop& loop, net::UpstreamClass k) : kind(k), since(loop.now()), later(loop) {}
    serving::Seat seat;
    const net::UpstreamClass kind;
    http::RequestHead head;  // while it waits
    bool waits = false;      // nothing has been sent
    const TimePoint since;
    std::optional<Error> refusal;
    net::Timer later;
  };
  void send(net::Upstream& upstream, net::UpstreamClass kind, http::RequestHead head);
  void on_turn(Expected<void> room);
  void refuse();
  /// Runs what may throw.
  template <class Run>
  void tell(Run&& run) noexcept;
  void unpack();
  void finish(Errc cause);

  net::Loop& loop_;
  Listener& listener_;
  shards::ShardClient::Handle client_;
  http::RequestStream* stream_ = nullptr;
  std::unique_ptr<Opening> opening_;  // null: it has begun to answer, or took no seat
  std::unique_ptr<Packed> packed_;    // null: the body comes as it is
  bool complete_ = false;             // END_STREAM was seen
};

}  // namespace kintsugi::aggregation
