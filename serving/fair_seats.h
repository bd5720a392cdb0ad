#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "auth/user.h"
#include "base/alive.h"
#include "base/error.h"
#include "base/siphash.h"
#include "net/loop.h"
#include "serving/fair_queues.h"
#include "serving/internal/seat_window.h"

namespace kintsugi::serving {

/// The level of a verified identity (SE-070); nobody is kUnknown.
[[nodiscard]] Level level_of(const auth::UserInfo& user) noexcept;

class FairSeats;
class ProcessLimits;

/// A request's place among those of a loop that run or wait. Must not move; leaves when it goes.
class Seat final : private FairQueues::Ticket {
 public:
  Seat() noexcept = default;
  ~Seat() { leave(); }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  /// The work has ended, or nobody wants it any more. Whoever waits gets his turn later.
  void leave() noexcept;
  /// The server that it was for has answered: the loop learns how many that one can have at once.
  /// @param refused  it had no room
  void answered(bool refused) noexcept;
  [[nodiscard]] bool waits() const noexcept { return Ticket::waits(); }
  [[nodiscard]] bool runs() const noexcept { return Ticket::runs(); }

 private:
  friend class FairSeats;
  FairSeats* seats_ = nullptr;  // that is there as long as the ticket is somewhere
  std::function<void(Expected<void>)> then_;
};

/// Seats of one loop: FairQueues, driven by the loop. Threads: its loop.
class FairSeats {
 public:
  /// @param limits  of this loop; without seats nobody ever waits.
  /// @param process  whom it tells how it stands; null: nobody
  FairSeats(net::Loop& loop, const FairLimits& limits,
            std::shared_ptr<ProcessLimits> process = nullptr);
  ~FairSeats();
  FairSeats(const FairSeats&) = delete;
  FairSeats& operator=(const FairSeats&) = delete;

  struct Who {
    Level level = Level::kTenant;
    std::string_view payer;    ///< see auth::payer_of
    std::string_view cluster;  ///< "": none
  };
  /// `seat` runs from now on if seats are plenty, so that it does not matter whose request it is.
  [[nodiscard]] bool sit_if_quiet(Seat& seat, Level level) noexcept;
  /// True: `seat` runs from now on, and `then` is forgotten. Else `then` is called once: with
  /// kTooManyRequests and when to come again, before this returns or later; or with a seat, in a
  /// later turn. Never once the seat has left.
  [[nodiscard]] bool enter(Seat& seat, const Who& who, FairQueues::Ask ask,
                           std::function<void(Expected<void>)> then);
  /// A divided share of `seats` for each of so many loops.
  [[nodiscard]] static FairLimits share_of(FairLimits all, std::size_t loops) noexcept;
  [[nodiscard]] const FairQueues& queues() const noexcept { return queues_; }

 private:
  friend class Seat;
  void left();
  void pump();
  [[nodiscard]] bool may_begin() noexcept;
  [[nodiscard]] tl::unexpected<Error> refusal(Level level);

  net::Loop& loop_;
  const std::shared_ptr<ProcessLimits> process_;
  const SipKey key_ = SipKey::random();
  FairQueues queues_;
  SeatWindow window_;
  bool pumping_ = false;   // it is going to
  TimePoint turn_{};       // of the loop
  std::size_t begun_ = 0;  // in it
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::serving
