#include "net/connection_book.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/cpu_limit.h"
#include "net/body_gate.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kPerCore = 10'000, kMost = 100'000;
constexpr std::size_t kPerAddress = 1'000, kPerPayer = 256;
constexpr std::uint32_t kNewPerSecond = 50;
constexpr std::size_t kLeastSweep = 1'024;
constexpr std::size_t kOwnFiles = 64;  ///< descriptors that are kept where a tenth is fewer

Duration interval_of(const ConnectionLimits& limits) noexcept {
  return Duration(seconds(1)) / limits.new_per_second;
}

bool is_loopback(std::string_view address) noexcept {
  return address == "::1" || address.starts_with("127.");
}

}  // namespace

std::string_view ConnectionBook::reason_name(Reason reason) noexcept {
  constexpr std::array<std::string_view, kReasons> kNames{"process", "address", "rate", "payer"};
  return kNames[static_cast<std::size_t>(reason)];
}

void ConnectionBook::set(const ConnectionLimits& limits) noexcept {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

ConnectionLimits ConnectionBook::limits() const {
  const std::lock_guard lock(mutex_);
  return limits_;
}

bool ConnectionBook::admit(Place& place, std::string_view address, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (limits_.process != 0 && connections() >= limits_.process) {
    return refuse(Reason::kProcess);
  }
  const bool is_counted = address != "unix" &&
                          (!limits_.spares_loopback || !is_loopback(address)) &&
                          (limits_.per_address != 0 || limits_.new_per_second != 0);
  if (is_counted) {
    if (addresses_.size() >= sweep_at_) {
      sweep(now);
    }
    Owner& owner = addresses_[address_payer(address)];
    if (limits_.per_address != 0 && owner.connections >= limits_.per_address) {
      return refuse(Reason::kAddress);
    }
    if (limits_.new_per_second != 0) {
      const Duration interval = interval_of(limits_);
      const TimePoint from = std::max(owner.full_at, now);
      if (from - now > seconds(1) - interval) {
        return refuse(Reason::kRate);
      }
      owner.full_at = from + interval;
    }
    ++owner.connections;
    place.address_ = &owner;
  }
  place.book_ = this;
  connections_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

ConnectionBook::Room ConnectionBook::identify(Place& place, const std::string& payer) {
  const std::lock_guard lock(mutex_);
  if (place.book_ == nullptr || place.payer_ != nullptr || limits_.per_payer == 0) {
    return Room::kThere;
  }
  const auto [found, is_new] = payers_.try_emplace(payer);
  Owner& owner = found->second;
  if (is_new) {
    owner.name = payer;
  }
  if (owner.connections >= 2 * limits_.per_payer) {
    refuse(Reason::kPayer);
    return Room::kNone;
  }
  place.payer_ = &owner;
  if (++owner.connections <= limits_.per_payer) {
    return Room::kThere;
  }
  refuse(Reason::kPayer);
  return Room::kCrowded;
}

void ConnectionBook::exempt(Place& place) noexcept {
  const std::lock_guard lock(mutex_);
  if (Owner* const address = place.address_) {
    if (limits_.new_per_second != 0) {
      address->full_at -= interval_of(limits_);
    }
    --address->connections;
    place.address_ = nullptr;
  }
}

void ConnectionBook::Place::give_back() noexcept {
  if (book_ == nullptr) {
    return;
  }
  const std::lock_guard lock(book_->mutex_);
  book_->connections_.fetch_sub(1, std::memory_order_relaxed);
  if (address_ != nullptr) {
    --address_->connections;  // forgotten once it is full, by sweep()
    address_ = nullptr;
  }
  if (payer_ != nullptr && --payer_->connections == 0) {
    book_->payers_.erase(book_->payers_.find(payer_->name));
  }
  payer_ = nullptr;
  book_ = nullptr;
}

/// Only who has nothing open and no token missing may be forgotten (SE-089).
void ConnectionBook::sweep(TimePoint now) {
  std::erase_if(addresses_, [now](const auto& one) {
    return one.second.connections == 0 && one.second.full_at <= now;
  });
  sweep_at_ = std::max(kLeastSweep, addresses_.size() * 2);
}

std::size_t ConnectionBook::owners() const {
  const std::lock_guard lock(mutex_);
  return addresses_.size() + payers_.size();
}

std::vector<std::pair<std::string, std::size_t>> ConnectionBook::largest(std::size_t most) const {
  std::vector<std::pair<std::string, std::size_t>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, owner] : payers_) {
      all.emplace_back(name, owner.connections);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  all.resize(std::min(all.size(), most));
  return all;
}

std::size_t ConnectionBook::largest_payer() const {
  const std::lock_guard lock(mutex_);
  std::size_t most = 0;
  for (const auto& [name, owner] : payers_) {
    most = std::max(most, owner.connections);
  }
  return most;
}

ConnectionLimits connection_limits(std::size_t process, std::size_t per_address,
                                   std::size_t per_payer) noexcept {
  ConnectionLimits out;
  rlimit files{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  const auto all = static_cast<std::size_t>(files.rlim_cur);
  const std::size_t usable =
      known ? std::min(all / 10 * 9, std::max(all, 2 * kOwnFiles) - kOwnFiles) : std::size_t{kMost};
  const std::size_t cores = std::max(2U, usable_cores());
  out.process = std::min(process != 0 ? process : std::min(cores * kPerCore, kMost), usable);
  out.per_address = per_address != 0 ? per_address : kPerAddress;
  out.per_payer = per_payer != 0 ? per_payer : kPerPayer;
  out.new_per_second = kNewPerSecond;
  out.spares_loopback = per_address == 0;
  return out;
}

}  // namespace kintsugi::net
