#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "auth/user.h"
#include "base/alive.h"
#include "base/error.h"
#include "base/siphash.h"
#include "net/loop.h"
#include "serving/fair_queues.h"
#include "serving/internal/seat_window.h"

namespace kintsugi::serving {

/// How long a proxy has let a request wait for its turn [ms, whole steps of kWaitedStep]; a shard
/// lets it wait so much less (SE-077). Believed of proxies alone.
inline constexpr std::string_view kWaitedHeader = "x-kintsugi-waited-ms";
/// Shorter waits are not told. Few values: HTTP/2 has each in its table.
inline constexpr std::chrono::milliseconds kWaitedStep{100};

/// The level of a verified identity (SE-070); nobody is kUnknown.
[[nodiscard]] Level level_of(const auth::UserInfo& user) noexcept;

class FairSeats;
class ProcessLimits;

/// What the FairSeats of one loop have together (SE-080): a seat that one gives back may be used by
/// any of them, and where all seats are taken they take turns. Outlives them. Threads: its loop.
class SharedSeats {
 public:
  /// @param most  seats; 0: any number
  explicit SharedSeats(std::size_t most) noexcept : total_{.most = most} {}
  SharedSeats(const SharedSeats&) = delete;
  SharedSeats& operator=(const SharedSeats&) = delete;
  [[nodiscard]] const SeatTotal& total() const noexcept { return total_; }

 private:
  friend class FairSeats;
  void freed();

  SeatTotal total_;
  std::vector<FairSeats*> all_;
  std::size_t next_ = 0;  // who is asked first whether somebody waits
};

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
  /// @param shared  with others of the loop; null: with nobody
  FairSeats(net::Loop& loop, const FairLimits& limits,
            std::shared_ptr<ProcessLimits> process = nullptr, SharedSeats* shared = nullptr);
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
  /// A divided share of `seats` and `total` for each of so many loops.
  [[nodiscard]] static FairLimits share_of(FairLimits all, std::size_t loops) noexcept;
  [[nodiscard]] const FairQueues& queues() const noexcept { return queues_; }

  /// What one payer has now; the name "" is of those who came while seats were plenty.
  struct PayerUse {
    Level level = Level::kTenant;
    std::string name;
    std::size_t running = 0, waiting = 0;  ///< seats
  };
  /// Those who have most first, `most` at the most. Cost: everybody who runs or waits.
  [[nodiscard]] std::vector<PayerUse> payers(std::size_t most) const;

 private:
  friend class Seat;
  friend class SharedSeats;
  /// Many requests in a row are of one payer and one cluster.
  struct Hashed {
    std::string name;
    std::uint64_t hash = 0;
    void take(const SipKey& key, std::string_view text) {
      name = text;
      hash = siphash(key, text);
    }
  };
  void remember(std::uint64_t payer, std::string_view name);
  void left();     // seats, or others, may be free
  void give_on();  // the same, for all that share them
  void pump();
  [[nodiscard]] bool may_begin() noexcept;
  [[nodiscard]] tl::unexpected<Error> refusal(Level level);

  net::Loop& loop_;
  const std::shared_ptr<ProcessLimits> process_;
  SharedSeats* const shared_;
  const SipKey key_ = SipKey::random();
  Hashed last_payer_{{}, siphash(key_, {})}, last_cluster_{{}, siphash(key_, {})};
  FairQueues queues_;
  /// Of payers that had to be told apart, by hash; those who have gone are forgotten when it is
  /// full.
  std::unordered_map<std::uint64_t, std::string> names_;
  SeatWindow window_;
  bool pumping_ = false;   // it is going to
  TimePoint turn_{};       // of the loop
  std::size_t begun_ = 0;  // in it
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::serving
