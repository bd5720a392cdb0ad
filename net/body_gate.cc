#include "net/body_gate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kintsugi::net {
namespace {

using Fit = MemoryBudget::Fit;

constexpr Duration kLookAgain = milliseconds(50);
constexpr std::size_t kBytesPerSecond = 64 * 1024;

Error late_body() {
  Error error(Errc::kTimeout, "the request body did not arrive in time");
  error.edit().http_status = 408;
  return error;
}

Error crowded_body() {
  Error error(Errc::kTooManyRequests,
              "too many bytes of request bodies are being received, please try again later");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace

std::string address_payer(std::string_view address) {
  constexpr std::size_t kPrefix = 7;  // /56
  const std::string text(address);
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, text.c_str(), &parsed) != 1) {
    return "address " + text;
  }
  return "address " + hex_encode({reinterpret_cast<const char*>(&parsed), kPrefix});
}

BodyGate::BodyGate(Loop& loop, std::shared_ptr<MemoryBudget> budget, BodyLimits limits)
    : loop_(loop), budget_(std::move(budget)), limits_(limits), timer_(loop) {}

void BodyGate::wait(BodyHold& hold) noexcept {
  hold.waits_ = true;
  hold.previous_ = last_;
  hold.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &hold;
  last_ = &hold;
  if (first_ == last_) {
    timer_.start(kLookAgain, [this] { look_again(); });
  }
}

void BodyGate::leave(BodyHold& hold) noexcept {
  if (!std::exchange(hold.waits_, false)) {
    return;
  }
  (hold.previous_ == nullptr ? first_ : hold.previous_->next_) = hold.next_;
  (hold.next_ == nullptr ? last_ : hold.next_->previous_) = hold.previous_;
}

// What makes room may be on another loop, so those that wait look for themselves.
void BodyGate::look_again() {
  for (BodyHold* hold = first_; hold != nullptr;) {
    BodyHold* next = hold->next_;
    if (hold->fit() == Fit::kFits) {
      leave(*hold);
      hold->last_tick_ = hold->received_;
      hold->begun_ += loop_.now() - hold->crowded_since_;  // the client could not send
      hold->arm(limits_.pace);
      hold->owner_->give_body_credit(std::exchange(hold->owed_, 0));
    }
    hold = next;
  }
  if (first_ != nullptr) {
    timer_.start(kLookAgain, [this] { look_again(); });
  }
}

BodyHold::BodyHold(BodyGate& gate, Owner& owner)
    : gate_(gate), owner_(&owner), begun_(gate.loop_.now()), timer_(gate.loop_) {
  arm(gate.limits_.first_byte);
}

BodyHold::~BodyHold() {
  if (owner_ != nullptr) {
    abandon();
  }
}

void BodyHold::leave_connection() noexcept {
  if (connection_ == nullptr) {
    return;
  }
  set(0);
  if (--connection_->holds == 0) {
    gate_.connections_.erase(gate_.connections_.find(*connection_name_));
  }
  connection_ = nullptr;
}

void BodyHold::arm(Duration delay) {
  timer_.start(delay, [this] { tick(); });
}

void BodyHold::set(std::size_t bytes) noexcept {
  if (connection_ != nullptr) {
    connection_->bytes += bytes - held_;  // may wrap, as the sum does
    if (bytes == 0 && connection_->beyond == this) {
      connection_->beyond = nullptr;
    }
  }
  held_ = bytes;
}

Fit BodyHold::fit() noexcept {
  const Fit fit = claim_->set(held_);
  if (connection_ == nullptr || connection_->bytes <= gate_.limits_.per_connection) {
    return fit;
  }
  if (connection_->beyond == nullptr || connection_->beyond == this) {
    connection_->beyond = this;
    return fit;
  }
  const bool full =
      connection_->bytes - connection_->beyond->held_ > 2 * gate_.limits_.per_connection;
  return full ? Fit::kFull : std::max(fit, Fit::kCrowded);
}

/// The first bytes have come.
void BodyHold::begin() {
  const BodyPayer payer = owner_->body_payer();
  const BodyLimits& limits = gate_.limits_;
  claim_.emplace(gate_.budget_, MemoryAccount::kBodies, payer.name,
                 MemoryBudget::Bounds{payer.known ? limits.per_payer : limits.unknown, true});
  if (!payer.connection.empty()) {
    const auto found = gate_.connections_.try_emplace(payer.connection).first;
    connection_ = &found->second;
    connection_name_ = &found->first;
    ++connection_->holds;
  }
  arm(limits.pace);
}

bool BodyHold::keep(std::size_t bytes) noexcept {
  if (bytes == 0 || owner_ == nullptr) {
    return true;
  }
  if (!claim_) {
    begin();
  }
  received_ += bytes;
  set(held_ + bytes);
  return fit() == Fit::kFits;
}

Expected<void> BodyHold::add(std::size_t bytes) {
  if (bytes == 0 || owner_ == nullptr) {
    return {};
  }
  if (!claim_) {
    begin();
  }
  received_ += bytes;
  set(held_ + bytes);
  const Fit now = fit();
  if (now == Fit::kFull) {
    ++gate_.crowded_;
    set(0);
    (void)claim_->set(0);
    gate_.leave(*this);
    finished_ = true;
    timer_.cancel();
    return tl::unexpected<Error>(crowded_body());
  }
  if (now == Fit::kCrowded || waits_) {
    owed_ += bytes;
    if (!waits_) {
      crowded_since_ = gate_.loop_.now();
      gate_.wait(*this);
      arm(gate_.limits_.crowded);
    }
    return {};
  }
  owner_->give_body_credit(bytes);
  return {};
}

void BodyHold::shrink(std::size_t bytes) noexcept {
  if (claim_ && bytes < held_) {
    set(bytes);
    (void)claim_->set(bytes);
  }
}

void BodyHold::finish() noexcept {
  finished_ = true;
  timer_.cancel();
  gate_.leave(*this);
}

void BodyHold::abandon() noexcept {
  finish();
  leave_connection();
  owner_ = nullptr;
}

void BodyHold::refuse(const Error& error, std::uint64_t& counter) {
  ++counter;
  finish();
  owner_->refuse_body(error);
}

void BodyHold::tick() {
  if (finished_ || owner_ == nullptr) {
    return;
  }
  const BodyLimits& limits = gate_.limits_;
  if (waits_) {
    refuse(crowded_body(), gate_.crowded_);
    return;
  }
  if (owner_->body_is_stuck()) {
    last_tick_ = received_;
    begun_ += limits.pace;
    arm(limits.pace);
    return;
  }
  const Duration allowed = std::min<Duration>(
      limits.most, limits.whole + seconds(static_cast<std::int64_t>(received_ / kBytesPerSecond)));
  if (received_ - last_tick_ < limits.pace_bytes || gate_.loop_.now() - begun_ >= allowed) {
    refuse(late_body(), gate_.late_);
    return;
  }
  last_tick_ = received_;
  arm(limits.pace);
}

}  // namespace kintsugi::net
