#include "serving/fair_queues.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/split_mix.h"

namespace kintsugi::serving {
namespace {

constexpr std::size_t kMostQueues = 4'096;
constexpr std::size_t kWord = 64;                       // bits
constexpr double kNews = 1.0 / 16;                      // of one service time in the mean
constexpr double kRemembered = 1;                       // of a level's seats [s]
constexpr std::size_t kNewcomers = 4;                   // seats at least
constexpr std::size_t kHeavySeats = 2;                  // at least, while newcomers come
constexpr Duration kNewcomersCome = milliseconds(500);  // since the last one
constexpr double kLeast = 1e-4;  // that work takes, also within one turn of a loop [s]
constexpr std::size_t kOperatorIndex = static_cast<std::size_t>(Level::kOperator);

double seconds_of(Duration duration) noexcept {
  return std::chrono::duration<double>(duration).count();
}

FairLimits usable(FairLimits limits) noexcept {
  limits.queues = std::clamp<std::size_t>(limits.queues, 1, kMostQueues);
  limits.hand =
      std::clamp<std::size_t>(limits.hand, 1, std::min(limits.queues, FairQueues::kMostInHand));
  return limits;
}

}  // namespace

std::string_view level_name(Level level) noexcept {
  constexpr std::array<std::string_view, kLevels> kNames{"system", "operator", "tenant", "unknown"};
  return kNames[static_cast<std::size_t>(level)];
}

FairQueues::FairQueues(const FairLimits& limits, std::uint64_t random, SeatTotal* total)
    : limits_(usable(limits)), total_(total), random_(random) {
  set_seats(limits_.seats);
  most_ = limits_.seats;
}

FairQueues::~FairQueues() {
  for (Ticket* ticket = running_; ticket != nullptr; ticket = ticket->next_) {
    count_seats(*ticket, false);
    ticket->queues_ = nullptr;
  }
  for (Ticket* ticket = soonest_; ticket != nullptr; ticket = ticket->later_) {
    ticket->queues_ = nullptr;
  }
}

void FairQueues::set_limits(const FairLimits& limits) noexcept {
  const std::size_t queues = limits_.queues;
  limits_ = limits;
  limits_.queues = queues;
  limits_ = usable(limits_);
  set_seats(limits_.seats);
  most_ = limits_.seats;
}

void FairQueues::set_seats(std::size_t seats) noexcept {
  limits_.seats = seats;
  open_ += seats - open_;
  std::size_t sum = 0;
  for (const std::uint32_t part : limits_.shares) {
    sum += part;
  }
  for (std::size_t level = 0; level < kLevels; ++level) {
    shares_[level] =
        std::max<std::size_t>(seats * limits_.shares[level] / std::max<std::size_t>(sum, 1), 1);
  }
}

bool FairQueues::fits(std::size_t level, std::size_t width, Crowd crowd,
                      std::uint64_t payer) const noexcept {
  if (limits_.seats == 0) {
    return true;  // nothing is bounded
  }
  std::size_t seats = limits_.seats;
  if (crowd == Crowd::kNewcomer) {
    seats = std::min(seats + std::max(seats / 4, kNewcomers), std::max(seats, most_));
  } else if (crowd == Crowd::kHeavy && heavy_ != 0 && seats < most_ && newcomer_ &&
             newcomer_->payer != payer && now_ - newcomer_->when < kNewcomersCome &&
             heavy_ + width > std::max(seats / 8, kHeavySeats)) {
    return false;
  }
  // What is wider than all there are runs alone.
  if (taken_ != 0 &&
      taken_ + width + spared(level, limits_.seats, levels_[kOperatorIndex].stats.seats) > seats) {
    return false;
  }
  if (total_ == nullptr || total_->most == 0 || total_->taken == 0 ||
      total_->taken + width + spared(level, total_->most, total_->operators) <= total_->most) {
    return true;
  }
  total_->was_short = true;
  return false;
}

/// What is kept for operators and they do not use.
std::size_t FairQueues::spared(std::size_t level, std::size_t seats,
                               std::size_t operators) const noexcept {
  const std::size_t all = seats * std::min<std::uint32_t>(limits_.spared, 100) / 100;
  return level == kOperatorIndex ? 0 : all - std::min(all, operators);
}

void FairQueues::count_seats(const Ticket& ticket, bool more) noexcept {
  // Of what is subtracted so much has been added.
  const std::size_t width = more ? ticket.width_ : std::size_t{0} - ticket.width_;
  taken_ += width;
  heavy_ += ticket.crowd_ == Crowd::kHeavy ? width : 0;
  group(ticket).stats.seats += width;
  if (total_ != nullptr) {
    total_->taken += width;
    total_->operators += ticket.flow_.level == Level::kOperator ? width : 0;
  }
}

void FairQueues::deal(std::uint64_t payer) noexcept {
  hand_.payer = payer;
  hand_.size = limits_.hand;
  std::array<std::uint32_t, kMostInHand> sorted{};
  for (std::size_t dealt = 0; dealt < hand_.size; ++dealt) {
    payer = stir(payer + kSplitMixStep);
    // The nth of those that are not in the hand yet.
    auto card = static_cast<std::uint32_t>(payer % (limits_.queues - dealt));
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(dealt);
    auto at = sorted.begin();
    for (; at != end && *at <= card; ++at) {
      ++card;
    }
    std::move_backward(at, end, end + 1);
    *at = card;
    hand_.queues[dealt] = card;
  }
}

/// The shortest of the payer's hand: by what waits there, then by what runs.
std::uint32_t FairQueues::choose(const Group& group, std::uint64_t payer) noexcept {
  if (hand_.payer != payer || hand_.size != limits_.hand) {
    deal(payer);
  }
  std::uint32_t best = hand_.queues[0];
  for (std::size_t i = 1; i < hand_.size; ++i) {
    const Queue &mine = group.queues[hand_.queues[i]], &other = group.queues[best];
    if (mine.width < other.width || (mine.width == other.width && mine.running < other.running)) {
      best = hand_.queues[i];
    }
  }
  return best;
}

/// The payer who was dealt last.
FairQueues::Crowd FairQueues::crowd_of(const Group& group) const noexcept {
  if (limits_.least == 0) {
    return Crowd::kUsual;
  }
  std::size_t busy = 0;
  for (std::size_t i = 0; i < hand_.size; ++i) {
    const Queue& queue = group.queues[hand_.queues[i]];
    busy += queue.length != 0 || queue.running != 0 ? 1 : 0;
  }
  if (3 * busy < hand_.size) {  // of others, most likely
    return Crowd::kNewcomer;
  }
  return busy == hand_.size ? Crowd::kHeavy : Crowd::kUsual;
}

FairQueues::Entry FairQueues::enter(Ticket& ticket, const Flow& flow, const Ask& ask,
                                    TimePoint now) {
  now_ = now;
  const auto level = static_cast<std::size_t>(flow.level);
  Group& mine = levels_[level];
  if (mine.queues.empty()) {
    mine.queues.resize(limits_.queues);
    mine.busy.resize((limits_.queues + kWord - 1) / kWord);
  }
  const std::uint32_t chosen = choose(mine, flow.payer);
  Queue& queue = mine.queues[chosen];
  const std::size_t width =
      limits_.seats == 0 ? 1 : std::clamp<std::size_t>(ask.width, 1, limits_.seats);
  const Crowd crowd = crowd_of(mine);
  if (crowd == Crowd::kNewcomer) {
    newcomer_ = Newcomer{flow.payer, now};
  }
  const bool at_once = !ask.queues && (waiting_ == 0 || crowd == Crowd::kNewcomer) &&
                       fits(level, width, crowd, flow.payer);
  const bool for_all = taken_ + waiting_ + width <= most_;
  if (!at_once && !for_all &&
      (queue.length >= limits_.queue_length || queue.bytes + ask.bytes > limits_.queue_bytes)) {
    ++mine.stats.full;
    return Entry::kFull;
  }
  if (queue.length == 0 && queue.running == 0) {
    queue.tag = std::max(queue.tag, mine.now);  // nothing is saved up
  }
  ticket.queues_ = this;
  ticket.flow_ = flow;
  ticket.queue_ = chosen;
  ticket.width_ = width;
  ticket.bytes_ = ask.bytes;
  ticket.order_ = ++last_order_;
  ticket.since_ = now;
  ticket.until_ = now + std::min(ask.wait, limits_.wait);
  ticket.blocked_.reset();
  ticket.runs_ = false;
  ticket.crowd_ = crowd;
  if (at_once) {
    run(ticket, now);
    return Entry::kRuns;
  }
  wait(ticket, queue);
  return Entry::kWaits;
}

/// A payer's requests get one turn after another; somebody who comes takes his first turn with the
/// next of those who wait.
void FairQueues::count_turns(Ticket& ticket, const Queue& queue) const noexcept {
  if (queue.plain) {
    ticket.turn_ = queue.last == nullptr ? 0 : queue.last->turn_ + 1;
    ticket.cluster_turn_ = queue.last == nullptr ? 0 : queue.last->cluster_turn_ + 1;
    return;
  }
  std::optional<std::uint64_t> first_turn, own_turn, first_cluster, own_cluster;
  for (const Ticket* other = queue.first; other != nullptr; other = other->next_) {
    first_turn = std::min(first_turn.value_or(other->turn_), other->turn_);
    if (other->flow_.payer != ticket.flow_.payer) {
      continue;
    }
    own_turn = std::max(own_turn.value_or(other->turn_), other->turn_);
    first_cluster = std::min(first_cluster.value_or(other->cluster_turn_), other->cluster_turn_);
    if (other->flow_.cluster == ticket.flow_.cluster) {
      own_cluster = std::max(own_cluster.value_or(other->cluster_turn_), other->cluster_turn_);
    }
  }
  ticket.turn_ = own_turn ? *own_turn + 1 : first_turn.value_or(0);
  ticket.cluster_turn_ = own_cluster ? *own_cluster + 1 : first_cluster.value_or(0);
}

void FairQueues::wait(Ticket& ticket, Queue& queue) noexcept {
  queue.plain =
      queue.first == nullptr || (queue.plain && queue.last->flow_.payer == ticket.flow_.payer &&
                                 queue.last->flow_.cluster == ticket.flow_.cluster);
  count_turns(ticket, queue);
  // Nearly all may wait equally long, so that who comes last is the last.
  ticket.earlier_ = latest_;
  while (ticket.earlier_ != nullptr && ticket.earlier_->until_ > ticket.until_) {
    ticket.earlier_ = ticket.earlier_->earlier_;
  }
  ticket.later_ = ticket.earlier_ == nullptr ? soonest_ : ticket.earlier_->later_;
  (ticket.earlier_ == nullptr ? soonest_ : ticket.earlier_->later_) = &ticket;
  (ticket.later_ == nullptr ? latest_ : ticket.later_->earlier_) = &ticket;
  group(ticket).busy[ticket.queue_ / kWord] |= std::uint64_t{1} << (ticket.queue_ % kWord);
  ticket.previous_ = queue.last;
  ticket.next_ = nullptr;
  (queue.last == nullptr ? queue.first : queue.last->next_) = &ticket;
  queue.last = &ticket;
  ++queue.length;
  queue.width += ticket.width_;
  queue.bytes += ticket.bytes_;
  ++waiting_;
  ++group(ticket).stats.waiting;
}

/// The one whose turn it is: of the payer whose turn it is, of his cluster whose turn it is.
FairQueues::Ticket* FairQueues::head(Queue& queue) noexcept {
  if (queue.plain) {
    return queue.first;
  }
  Ticket* payer = queue.first;
  for (Ticket* other = queue.first; other != nullptr; other = other->next_) {
    payer = other->turn_ < payer->turn_ ? other : payer;
  }
  Ticket* chosen = payer;
  for (Ticket* other = queue.first; other != nullptr; other = other->next_) {
    if (other->flow_.payer == payer->flow_.payer && other->cluster_turn_ < chosen->cluster_turn_) {
      chosen = other;
    }
  }
  if (chosen != payer) {  // the turn is the payer's, whichever of his requests uses it
    std::swap(chosen->turn_, payer->turn_);
  }
  return chosen;
}

void FairQueues::take_out(Ticket& ticket, Queue& queue) noexcept {
  (ticket.previous_ == nullptr ? queue.first : ticket.previous_->next_) = ticket.next_;
  (ticket.next_ == nullptr ? queue.last : ticket.next_->previous_) = ticket.previous_;
  --queue.length;
  queue.width -= ticket.width_;
  queue.bytes -= ticket.bytes_;
  --waiting_;
  --group(ticket).stats.waiting;
  (ticket.earlier_ == nullptr ? soonest_ : ticket.earlier_->later_) = ticket.later_;
  (ticket.later_ == nullptr ? latest_ : ticket.later_->earlier_) = ticket.earlier_;
  if (queue.first == nullptr) {
    group(ticket).busy[ticket.queue_ / kWord] &= ~(std::uint64_t{1} << (ticket.queue_ % kWord));
  }
}

/// Its work is charged as the mean until it is known how long it has taken.
void FairQueues::run(Ticket& ticket, TimePoint now) noexcept {
  Group& mine = group(ticket);
  Queue& queue = mine.queues[ticket.queue_];
  mine.now = std::max(mine.now, queue.tag);
  ticket.charged_ = mine.mean * static_cast<double>(ticket.width_);
  queue.tag += ticket.charged_;
  ++queue.running;
  sit(ticket, now);
}

void FairQueues::run_at_once(Ticket& ticket, Level level, TimePoint now) noexcept {
  now_ = now;
  ticket.queues_ = this;
  ticket.flow_ = {level, 0, 0};
  ticket.queue_ = kNoQueue;
  ticket.crowd_ = Crowd::kUsual;
  ticket.width_ = 1;
  sit(ticket, now);
}

void FairQueues::sit(Ticket& ticket, TimePoint now) noexcept {
  Group& mine = group(ticket);
  ticket.runs_ = true;
  ticket.since_ = now;
  ticket.previous_ = nullptr;
  ticket.next_ = running_;
  if (running_ != nullptr) {
    running_->previous_ = &ticket;
  }
  running_ = &ticket;
  count_seats(ticket, true);
  ++mine.stats.served;
}

void FairQueues::leave(Ticket& ticket, TimePoint now) noexcept {
  if (ticket.queues_ == nullptr) {
    return;
  }
  now_ = now;
  ticket.queues_ = nullptr;
  Group& mine = group(ticket);
  if (!ticket.runs_) {
    take_out(ticket, mine.queues[ticket.queue_]);
    return;
  }
  (ticket.previous_ == nullptr ? running_ : ticket.previous_->next_) = ticket.next_;
  if (ticket.next_ != nullptr) {
    ticket.next_->previous_ = ticket.previous_;
  }
  const double took = std::max(seconds_of(now - ticket.since_), kLeast);
  mine.mean += (took - mine.mean) * kNews;
  if (ticket.queue_ != kNoQueue) {
    Queue& queue = mine.queues[ticket.queue_];
    queue.tag += took * static_cast<double>(ticket.width_) - ticket.charged_;
    // What one had while nobody else wanted it is not held against him for long (SE-005).
    const auto seats = static_cast<double>(shares_[static_cast<std::size_t>(ticket.flow_.level)]);
    queue.tag = std::min(queue.tag, mine.now + seats * kRemembered);
    --queue.running;
  }
  count_seats(ticket, false);
}

/// The one of this level whose turn it is, or a narrower one when it has stopped those long enough.
FairQueues::Ticket* FairQueues::next_of(std::size_t level, TimePoint now) noexcept {
  Group& mine = levels_[level];
  Ticket* best = nullptr;  // that fits
  double best_tag = 0;
  Ticket* wide = nullptr;  // that is next, and does not
  double wide_tag = 0;
  for (std::size_t word = 0; word < mine.busy.size(); ++word) {
    for (std::uint64_t left = mine.busy[word]; left != 0; left &= left - 1) {
      Queue& queue = mine.queues[word * kWord + static_cast<std::size_t>(std::countr_zero(left))];
      Ticket* first = head(queue);
      const bool has_room = fits(level, first->width_, first->crowd_, first->flow_.payer);
      Ticket*& leader = has_room ? best : wide;
      double& tag = has_room ? best_tag : wide_tag;
      if (leader == nullptr || queue.tag < tag ||
          (queue.tag <= tag && first->order_ < leader->order_)) {
        leader = first;
        tag = queue.tag;
      }
    }
  }
  const bool is_next = best == nullptr || wide_tag < best_tag ||
                       (wide_tag <= best_tag && wide != nullptr && wide->order_ < best->order_);
  if (wide == nullptr || wide->width_ == 1 || !is_next) {
    return best;
  }
  if (!wide->blocked_) {
    wide->blocked_ = now;
  }
  const TimePoint until = *wide->blocked_ + limits_.block;
  if (best != nullptr && now < until) {
    unblock_ = std::min(unblock_.value_or(until), until);
    return nullptr;
  }
  return best;
}

FairQueues::Ticket* FairQueues::next(TimePoint now) noexcept {
  now_ = now;
  unblock_.reset();
  // Who uses the least of his share comes first: what was lent goes back as seats become free.
  std::uint32_t asked = 0;  // a bit for each level
  for (;;) {
    std::size_t level = kLevels;
    for (std::size_t other = 0; other < kLevels; ++other) {
      if (levels_[other].stats.waiting != 0 && (asked & 1U << other) == 0 &&
          (level == kLevels || levels_[other].stats.seats * shares_[level] <
                                   levels_[level].stats.seats * shares_[other])) {
        level = other;
      }
    }
    if (level == kLevels) {
      return nullptr;
    }
    asked |= 1U << level;
    if (Ticket* ticket = next_of(level, now)) {
      Group& mine = levels_[level];
      take_out(*ticket, mine.queues[ticket->queue_]);
      ++mine.stats.waited;
      mine.stats.wait_ns += static_cast<std::uint64_t>(Duration(now - ticket->since_).count());
      run(*ticket, now);
      return ticket;
    }
  }
}

FairQueues::Ticket* FairQueues::expired(TimePoint now) noexcept {
  now_ = now;
  Ticket* const ticket = soonest_;
  if (ticket == nullptr || now < ticket->until_) {
    return nullptr;
  }
  ++group(*ticket).stats.late;
  ticket->queues_ = nullptr;
  take_out(*ticket, group(*ticket).queues[ticket->queue_]);
  return ticket;
}

FairQueues::LevelTotals FairQueues::totals(Level level) const noexcept {
  const LevelStats& stats = levels_[static_cast<std::size_t>(level)].stats;
  return {stats.waiting,
          stats.seats,
          stats.served,
          stats.full,
          stats.late,
          stats.waited,
          Duration(static_cast<Duration::rep>(std::uint64_t{stats.wait_ns}))};
}

FairQueues::LevelTotals& FairQueues::LevelTotals::operator+=(const LevelTotals& other) noexcept {
  waiting += other.waiting;
  seats += other.seats;
  served += other.served;
  full += other.full;
  late += other.late;
  waited += other.waited;
  wait += other.wait;
  return *this;
}

std::optional<TimePoint> FairQueues::next_deadline() const noexcept {
  if (soonest_ == nullptr) {
    return std::nullopt;
  }
  const TimePoint first = soonest_->until_;
  return unblock_ ? std::min(*unblock_, first) : first;
}

/// What waits in one queue, by the time that its work takes at this level's share of the seats; a
/// quarter more or less, so that those who are told do not come back together.
std::uint32_t FairQueues::retry_after(Level level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  const Group& mine = levels_[index];
  const double seats = static_cast<double>(limits_.seats == 0 ? 1 : shares_[index]);
  const double work = static_cast<double>(mine.stats.waiting + 1) * mine.mean / seats;
  random_ = stir(random_ + kSplitMixStep);
  const double spread = 0.75 + 0.5 * static_cast<double>(random_ >> 40U) / (1U << 24U);
  return static_cast<std::uint32_t>(std::clamp(std::ceil(work * spread), 1.0, 30.0));
}

}  // namespace kintsugi::serving
