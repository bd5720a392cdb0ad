#include "serving/fair_seats.h"

#include <algorithm>
#include <map>
#include <optional>

#include "auth/own_roles.h"
#include "serving/process_limits.h"

namespace kintsugi::serving {
namespace {

constexpr std::size_t kMostNames = 8'192;
/// A turn of a loop that has taken so long begins no more than kAlways: whoever comes meanwhile is
/// heard after it (SE-005).
constexpr Duration kTurn = std::chrono::microseconds(500);
constexpr std::size_t kAlways = 4;

}  // namespace

Level level_of(const auth::UserInfo& user) noexcept {
  if (user.name.empty() || user.name == auth::kAnonymous) {
    return Level::kUnknown;
  }
  Level level = Level::kTenant;
  for (const std::string& group : user.groups) {
    if (!group.starts_with("system:")) {
      continue;
    }
    if (group == auth::kGroupExternalLogicalClusterAdmin || group == auth::kGroupOwnProxy ||
        group == auth::kGroupOwnShard) {
      return Level::kSystem;
    }
    if (group == auth::kGroupKcpAdmin || group == auth::kGroupMasters) {
      level = Level::kOperator;
    }
  }
  return level;
}

void Seat::leave() noexcept {
  then_ = nullptr;
  if (!waits() && !runs()) {
    return;
  }
  FairSeats& seats = *seats_;
  seats.queues_.leave(*this, seats.loop_.now());
  seats.give_on();
}

void Seat::answered(bool refused) noexcept {
  if (!runs() || seats_->queues_.limits().least == 0) {
    return;
  }
  FairSeats& seats = *seats_;
  const TimePoint now = seats.loop_.now();
  if (seats.window_.on_answer(now - since(), seats.queues_.seats_taken(), refused, now)) {
    seats.queues_.set_seats(seats.window_.seats());
    seats.left();
  }
}

FairSeats::FairSeats(net::Loop& loop, const FairLimits& limits,
                     std::shared_ptr<ProcessLimits> process, SharedSeats* shared)
    : loop_(loop),
      process_(std::move(process)),
      shared_(shared),
      queues_(limits, siphash(key_, {}), shared == nullptr ? nullptr : &shared->total_),
      window_(limits.seats, limits.least),
      timer_(loop) {
  if (limits.least != 0) {
    queues_.set_seats(window_.seats());
  }
  if (process_ != nullptr) {
    process_->add(queues_);
  }
  if (shared_ != nullptr) {
    shared_->all_.push_back(this);
  }
}

FairSeats::~FairSeats() {
  if (process_ != nullptr) {
    process_->remove(queues_);
  }
  if (shared_ != nullptr) {
    std::erase(shared_->all_, this);
  }
}

FairLimits FairSeats::share_of(FairLimits all, std::size_t loops) noexcept {
  for (std::size_t* const seats : {&all.seats, &all.total}) {
    if (*seats != 0) {
      *seats = std::max<std::size_t>(*seats / std::max<std::size_t>(loops, 1), 1);
    }
  }
  return all;
}

/// The turn of the loop has room for one more.
bool FairSeats::may_begin() noexcept {
  if (queues_.limits().per_turn == 0) {
    return true;
  }
  if (const TimePoint now = loop_.now(); now != turn_) {
    turn_ = now;
    begun_ = 0;
  }
  return begun_ < kAlways || (begun_ < queues_.limits().per_turn && Clock::now() - turn_ < kTurn);
}

bool FairSeats::sit_if_quiet(Seat& seat, Level level) noexcept {
  seat.seats_ = this;
  const FairLimits& limits = queues_.limits();
  const bool quiet = limits.seats == 0 || (queues_.has_plenty() && may_begin());
  if (quiet) {
    ++begun_;
    queues_.run_at_once(seat, level, loop_.now());
  }
  return quiet;
}

bool FairSeats::enter(Seat& seat, const Who& who, FairQueues::Ask ask,
                      std::function<void(Expected<void>)> then) {
  if ((ask.width == 1 || queues_.limits().seats == 0) && sit_if_quiet(seat, who.level)) {
    return true;
  }
  seat.seats_ = this;
  if (who.payer != last_payer_.name) {
    last_payer_.take(key_, who.payer);
    remember(last_payer_.hash, who.payer);
  }
  if (who.cluster != last_cluster_.name) {
    last_cluster_.take(key_, who.cluster);
  }
  const Flow flow{who.level, last_payer_.hash, last_cluster_.hash};
  ask.queues = ask.queues || !may_begin();
  switch (queues_.enter(seat, flow, ask, loop_.now())) {
    case FairQueues::Entry::kRuns:
      ++begun_;
      return true;
    case FairQueues::Entry::kWaits: {
      seat.then_ = std::move(then);
      left();
      return false;
    }
    case FairQueues::Entry::kFull:
      break;
  }
  // Answered at once: a queue of refusals would be a queue without a bound.
  then(refusal(who.level));
  return false;
}

void FairSeats::remember(std::uint64_t payer, std::string_view name) {
  if (names_.size() >= kMostNames && !names_.contains(payer)) {
    std::unordered_map<std::uint64_t, std::string> kept;
    queues_.visit([&](const FairQueues::Seen& seen) {
      if (const auto known = names_.find(seen.flow.payer); known != names_.end()) {
        kept.insert(*known);
      }
    });
    names_ = std::move(kept);
  }
  if (names_.size() < kMostNames) {
    names_.try_emplace(payer, name);
  }
}

std::vector<FairSeats::PayerUse> FairSeats::payers(std::size_t most) const {
  std::map<std::pair<Level, std::uint64_t>, PayerUse> found;
  queues_.visit([&](const FairQueues::Seen& seen) {
    PayerUse& use = found[{seen.flow.level, seen.flow.payer}];
    use.level = seen.flow.level;
    (seen.runs ? use.running : use.waiting) += seen.width;
  });
  std::vector<PayerUse> out;
  for (auto& [key, use] : found) {
    const auto known = names_.find(key.second);
    use.name = known == names_.end() ? "" : known->second;
    out.push_back(std::move(use));
  }
  std::stable_sort(out.begin(), out.end(), [](const PayerUse& a, const PayerUse& b) {
    return a.running + a.waiting > b.running + b.waiting;
  });
  out.resize(std::min(out.size(), most));
  return out;
}

tl::unexpected<Error> FairSeats::refusal(Level level) {
  Error error(Errc::kTooManyRequests, "Too many requests, please try again later.");
  error.edit().retry_after_seconds = static_cast<int>(queues_.retry_after(level));
  return fail(std::move(error));
}

void FairSeats::give_on() {
  if (shared_ != nullptr && shared_->total_.was_short) {
    shared_->freed();
  } else {
    left();
  }
}

void SharedSeats::freed() {
  total_.was_short = false;
  next_ = (next_ + 1) % all_.size();
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_[(next_ + i) % all_.size()]->left();
  }
}

void FairSeats::left() {
  if (!pumping_ && queues_.has_waiting()) {
    pumping_ = true;
    loop_.post(alive_.guard([this] { pump(); }));
  }
}

void FairSeats::pump() {
  pumping_ = false;
  const Alive::Guard alive = alive_.weak();
  bool more = true;  // may get a seat now
  while (may_begin()) {
    FairQueues::Ticket* const ticket = queues_.next(loop_.now());
    more = ticket != nullptr;
    if (!more) {
      break;
    }
    ++begun_;
    if (const auto then = std::exchange(static_cast<Seat*>(ticket)->then_, nullptr)) {
      then({});
    }
    if (!alive) {
      return;
    }
  }
  while (FairQueues::Ticket* ticket = queues_.expired(loop_.now())) {
    const Level level = queues_.level_of(*ticket);
    if (const auto then = std::exchange(static_cast<Seat*>(ticket)->then_, nullptr)) {
      then(refusal(level));
    }
    if (!alive) {
      return;
    }
  }
  if (more) {
    left();  // in the next turn
  }
  timer_.cancel();
  if (const std::optional<TimePoint> next = queues_.next_deadline()) {
    timer_.start(std::max<Duration>(*next - loop_.now(), milliseconds(1)), [this] { pump(); });
  }
}

}  // namespace kintsugi::serving
