#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/memory_budget.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::net {

/// What a request body may take (SE-078, SE-079).
struct BodyLimits {
  Duration first_byte = seconds(10);
  Duration pace = seconds(10);  ///< in each of these the client sends `pace_bytes` or the end
  std::size_t pace_bytes = 16 * 1024;
  Duration whole = seconds(30);    ///< and one second more for each 64 KiB,
  Duration most = seconds(300);    ///< but no longer than this
  Duration crowded = seconds(10);  ///< so long windows stay shut; then 429
  std::size_t per_connection = std::size_t{1} << 20;
  std::size_t per_payer = std::size_t{16} << 20;
  std::size_t unknown = std::size_t{1} << 20;  ///< of an address of which nobody is known
};

/// Whom a body is charged to (SE-071): the requester, never whom he impersonates.
struct BodyPayer {
  std::string name;        ///< of the user, or address_payer()
  bool known = false;      ///< a verified identity
  std::string connection;  ///< tells connections apart; "": it carries requests of many
};

/// The purse of clients that nobody knows: an IPv4 address, or the /56 of an IPv6 address.
[[nodiscard]] std::string address_payer(std::string_view address);

/// The bodies of one loop that are being received. Threads: its loop. Outlives its holds.
class BodyGate {
 public:
  BodyGate(Loop& loop, std::shared_ptr<MemoryBudget> budget, BodyLimits limits = {});
  BodyGate(const BodyGate&) = delete;
  BodyGate& operator=(const BodyGate&) = delete;

  [[nodiscard]] const BodyLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::uint64_t late() const noexcept { return late_; }        ///< 408
  [[nodiscard]] std::uint64_t crowded() const noexcept { return crowded_; }  ///< 429

 private:
  friend class BodyHold;
  struct Connection {
    std::size_t holds = 0, bytes = 0;
    const class BodyHold* beyond = nullptr;  // the one that may pass the bound
  };
  void wait(class BodyHold& hold) noexcept;
  void leave(class BodyHold& hold) noexcept;
  void look_again();

  Loop& loop_;
  std::shared_ptr<MemoryBudget> budget_;
  BodyLimits limits_;
  std::unordered_map<std::string, Connection> connections_;
  class BodyHold* first_ = nullptr;  // those whose windows are shut
  class BodyHold* last_ = nullptr;
  Timer timer_;
  std::uint64_t late_ = 0, crowded_ = 0;
};

/// One body while it is kept: its clock runs from the head on until finish(), its bytes count until
/// the hold is gone. Threads: the gate's loop.
class BodyHold {
 public:
  class Owner {
   public:
    /// Asked once, when the first bytes have come.
    [[nodiscard]] virtual BodyPayer body_payer() const = 0;
    /// http::Stream::consume. Also from inside add().
    virtual void give_body_credit(std::size_t bytes) noexcept = 0;
    /// The client is late (408), or there has been no room for too long (429): answer so. Never
    /// from inside another function of the hold. The hold may be destroyed inside.
    virtual void refuse_body(const Error& error) noexcept = 0;
    /// The client cannot go on, since somebody else does not take what it has sent.
    [[nodiscard]] virtual bool body_is_stuck() const noexcept { return false; }

   protected:
    ~Owner() = default;
  };
  /// @param owner  must outlive the hold, or abandon() comes first.
  BodyHold(BodyGate& gate, Owner& owner);
  ~BodyHold();
  BodyHold(const BodyHold&) = delete;
  BodyHold& operator=(const BodyHold&) = delete;

  /// Bytes have come. They are given back to the client's window now or when there is room.
  /// @error kTooManyRequests: there is none for what is here already; drop it and answer so.
  [[nodiscard]] Expected<void> add(std::size_t bytes);
  /// Bytes that go on at once have come, and a copy is kept: no credit is given. False: there is no
  /// room for the copy.
  [[nodiscard]] bool keep(std::size_t bytes) noexcept;
  /// Bytes that go on at once have come.
  void pass(std::size_t bytes) noexcept { received_ += bytes; }
  /// So many bytes are kept now, fewer than before.
  void shrink(std::size_t bytes) noexcept;
  /// The body is whole: its clock stops.
  void finish() noexcept;
  /// The owner goes; what is kept still counts for its payer. The gate is not needed any more, and
  /// the hold may end on any thread.
  void abandon() noexcept;

 private:
  friend class BodyGate;
  [[nodiscard]] MemoryBudget::Fit fit() noexcept;
  void begin();
  void set(std::size_t bytes) noexcept;
  void leave_connection() noexcept;
  void tick();
  void refuse(const Error& error, std::uint64_t& counter);
  void arm(Duration delay);

  BodyGate& gate_;
  Owner* owner_;  // null once abandoned
  std::optional<MemoryBudget::Claim> claim_;
  BodyGate::Connection* connection_ = nullptr;
  const std::string* connection_name_ = nullptr;
  std::size_t held_ = 0, received_ = 0;
  std::size_t owed_ = 0;       // credit that the client has not got
  std::size_t last_tick_ = 0;  // received_ then
  TimePoint begun_;
  TimePoint crowded_since_{};
  bool waits_ = false, finished_ = false;
  BodyHold* previous_ = nullptr;
  BodyHold* next_ = nullptr;
  Timer timer_;
};

}  // namespace kintsugi::net
