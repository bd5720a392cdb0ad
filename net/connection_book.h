#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"

namespace kintsugi::net {

/// How many connections there may be (SE-081, SE-082). 0: no bound.
struct ConnectionLimits {
  std::size_t process = 0;
  std::size_t per_address = 0;       ///< IPv4 address, or /56 of IPv6
  std::size_t per_payer = 0;         ///< of a verified identity
  std::uint32_t new_per_second = 0;  ///< of an address, and as many at once
  bool spares_loopback = false;      ///< this machine's own are not counted by address
  bool operator==(const ConnectionLimits&) const = default;
};

/// Who has connections to the listeners of a process. Threads: any. Cost: two short locks per
/// connection, none per request.
class ConnectionBook {
  struct Owner;

 public:
  enum class Reason : std::uint8_t { kProcess, kAddress, kRate, kPayer };
  static constexpr std::size_t kReasons = 4;
  /// "process", …: the label `reason`.
  [[nodiscard]] static std::string_view reason_name(Reason reason) noexcept;

  explicit ConnectionBook(const ConnectionLimits& limits) : limits_(limits) {}
  ConnectionBook(const ConnectionBook&) = delete;
  ConnectionBook& operator=(const ConnectionBook&) = delete;

  /// A connection's place; given back when it goes. Threads: one at a time. The book must outlive
  /// it.
  class Place {
   public:
    Place() noexcept = default;
    ~Place() { give_back(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    void give_back() noexcept;

   private:
    friend class ConnectionBook;
    ConnectionBook* book_ = nullptr;
    Owner* address_ = nullptr;
    Owner* payer_ = nullptr;
  };

  /// For connections that come from now on.
  void set(const ConnectionLimits& limits) noexcept;
  /// A connection has been accepted. False: it is to be closed.
  /// @param place  is empty; keeps its place
  /// @param address  as in PeerInfo; "unix" is not counted by address
  [[nodiscard]] bool admit(Place& place, std::string_view address, TimePoint now);
  /// How a payer's connection stands.
  enum class Room : std::uint8_t {
    kThere,
    kCrowded,  ///< he has too many: its requests are to be refused
    kNone,     ///< twice too many: it is to be closed
  };
  /// It is known whose it is. Once per place.
  [[nodiscard]] Room identify(Place& place, const std::string& payer);
  /// It is a server's of the installation: it does not count for its address.
  void exempt(Place& place) noexcept;

  [[nodiscard]] std::size_t connections() const noexcept {
    return connections_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] ConnectionLimits limits() const;
  [[nodiscard]] std::uint64_t refused(Reason reason) const noexcept {
    return refused_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }
  /// Payers and addresses that it remembers.
  [[nodiscard]] std::size_t owners() const;
  /// Who has the most connections: payers by name, the largest first.
  [[nodiscard]] std::vector<std::pair<std::string, std::size_t>> largest(std::size_t most) const;
  /// The most connections that one of them has.
  [[nodiscard]] std::size_t largest_payer() const;

 private:
  struct Owner {
    std::string name;
    std::size_t connections = 0;
    TimePoint full_at{};  // when no token is missing any more
  };
  using Owners = std::unordered_map<std::string, Owner>;
  bool refuse(Reason reason) noexcept {
    refused_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  void sweep(TimePoint now);

  mutable std::mutex mutex_;  // of what follows
  ConnectionLimits limits_;
  Owners addresses_, payers_;
  std::size_t sweep_at_ = 1'024;
  std::atomic<std::size_t> connections_ = 0;
  std::array<std::atomic<std::uint64_t>, kReasons> refused_{};
};

/// The bounds where nobody says otherwise: by the machine's cores and by how many descriptors the
/// process may have, of which a tenth is kept for other uses (SE-092). Those by address spare
/// loopback.
/// @param process, per_address, per_payer  what somebody says; 0: nothing. An address bound that
/// is said counts for loopback, too.
[[nodiscard]] ConnectionLimits connection_limits(std::size_t process, std::size_t per_address,
                                                 std::size_t per_payer) noexcept;

}  // namespace kintsugi::net
