#include "aggregation/rights/internal/review_book.h"

#include <algorithm>

#include "aggregation/asking/jitter.h"
#include "base/digest.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kLongestRetry = seconds(5);
constexpr Duration kRoundGap = milliseconds(500);  ///< rights that change all the time

std::string key_of(const ReviewServer& server, const std::string& body) {
  const auto digest = sha256(std::to_string(server.shard) + '\n' + server.prefix + '\n' + body);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// A fifth more or less.
Duration around(Duration whole) {
  return Duration(random_between(whole.count() * 4 / 5, whole.count() * 6 / 5));
}

}  // namespace

bool ReviewBook::is_fresh(const Entry& entry, TimePoint now) const noexcept {
  const bool decided = entry.right == Right::kAllowed || entry.right == Right::kDenied;
  return decided && entry.epoch == entry.server->epoch && now < entry.decided_at + limits_.fresh;
}

ReviewBook::Known ReviewBook::follow(const ReviewServer& server, const std::string& body,
                                     Follower& follower, TimePoint now) {
  const std::string key = key_of(server, body);
  std::unique_ptr<Entry>& slot = entries_[key];
  if (slot == nullptr) {
    slot = std::make_unique<Entry>();
    slot->key = key;
    slot->server = &servers_.try_emplace(server, Server{.name = server, .queue = {}}).first->second;
    ++slot->server->entries;
    slot->age = ages_.insert(ages_.end(), key);
  }
  Entry& entry = *slot;
  const Ticket ticket = ++last_ticket_;
  Following& following = followers_[ticket];
  following = {&entry, &follower, Right::kUnknown};
  if (entry.followers.empty()) {
    entry.body = body;
  }
  entry.followers.push_back(ticket);
  if (is_fresh(entry, now)) {
    following.told = entry.right;
    if (entry.check_at == TimePoint::max()) {
      schedule(entry, entry.decided_at + around(limits_.recheck));
    }
  } else if (!entry.queued && !entry.under_way) {
    ask(entry, true);
  }
  Known known{ticket, following.told, following.told == Right::kUnknown ? "" : entry.reason};
  evict();
  return known;
}

void ReviewBook::unfollow(Ticket ticket) noexcept {
  const auto found = followers_.find(ticket);
  if (found == followers_.end()) {
    return;
  }
  Entry& entry = *found->second.entry;
  followers_.erase(found);
  std::erase(entry.followers, ticket);
  if (entry.followers.empty()) {
    schedule(entry, TimePoint::max());
    entry.failures = 0;
    entry.failing_since = TimePoint::max();
    if (!entry.queued) {
      entry.body = {};
    }
  }
}

void ReviewBook::ask(Entry& entry, bool first) {
  entry.queued = true;
  ++queued_;
  std::deque<std::string>& queue = entry.server->queue;
  if (first) {  // somebody waits for it
    queue.push_front(entry.key);
  } else {
    queue.push_back(entry.key);
  }
}

std::optional<ReviewBook::Question> ReviewBook::next() {
  if (queued_ == 0) {
    return std::nullopt;
  }
  for (auto& [name, server] : servers_) {
    while (!server.queue.empty() && server.under_way < limits_.under_way) {
      const std::string key = std::move(server.queue.front());
      server.queue.pop_front();
      Entry& entry = *entries_.find(key)->second;
      entry.queued = false;
      --queued_;
      if (entry.followers.empty()) {  // nobody wants to know any more
        entry.body = {};
        continue;
      }
      entry.under_way = true;
      entry.epoch = server.epoch;
      ++server.under_way;
      return Question{key, name, entry.body};
    }
  }
  return std::nullopt;
}

void ReviewBook::answer(const std::string& key, std::optional<bool> allowed,
                        std::string_view reason, TimePoint now) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second->under_way) {
    return;
  }
  Entry& entry = *found->second;
  entry.under_way = false;
  --entry.server->under_way;
  if (std::exchange(entry.again, false)) {  // rights may have changed since it was asked
    ask(entry, true);
  }
  if (!allowed) {
    ++entry.failures;
    entry.failing_since = std::min(entry.failing_since, now);
    // What was known is not known any more; only those who were told so may go on for a while.
    entry.epoch = 0;
    schedule(entry,
             now + jittered(std::min<Duration>(limits_.retry * entry.failures, kLongestRetry)));
    tell(entry, now);
    return;
  }
  entry.right = *allowed ? Right::kAllowed : Right::kDenied;
  entry.reason = reason;
  entry.decided_at = now;
  entry.failures = 0;
  entry.failing_since = TimePoint::max();
  ages_.splice(ages_.end(), ages_, entry.age);
  schedule(entry, now + around(limits_.recheck));
  tell(entry, now);
}

void ReviewBook::tell(Entry& entry, TimePoint now) {
  const bool failing = entry.failing_since != TimePoint::max();
  const bool grace_over = failing && now >= entry.failing_since + limits_.grace;
  const Right right = failing ? Right::kUnavailable : entry.right;
  const std::string reason = failing ? std::string() : entry.reason;
  for (const Ticket ticket : std::vector<Ticket>(entry.followers)) {
    const auto found = followers_.find(ticket);
    if (found == followers_.end() || found->second.told == right) {
      continue;
    }
    const Right told = found->second.told;
    if (failing && (told == Right::kDenied || (told == Right::kAllowed && !grace_over))) {
      continue;
    }
    found->second.told = right;
    found->second.follower->on_right(right, reason);
  }
}

void ReviewBook::schedule(Entry& entry, TimePoint at) {
  if (entry.check_at != TimePoint::max()) {
    schedule_.erase({entry.check_at, &entry});
  }
  entry.check_at = entry.followers.empty() ? TimePoint::max() : at;
  if (entry.check_at != TimePoint::max()) {
    schedule_.emplace(entry.check_at, &entry);
  }
}

void ReviewBook::changed(const ReviewServer& server, TimePoint now) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) {
    return;
  }
  Server& its = found->second;
  ++its.epoch;  // nobody may begin by what is known
  its.soon = std::min(its.soon, std::max(now + limits_.soon, its.last_round + kRoundGap));
  its.later = now + limits_.later;
  first_round_ = std::min({first_round_, its.soon, its.later});
}

void ReviewBook::all_changed(TimePoint now) {
  for (const auto& [name, server] : servers_) {
    changed(name, now);
  }
}

void ReviewBook::round(Server& server, TimePoint now) {
  server.last_round = now;
  ++server.epoch;
  for (auto& [ticket, following] : followers_) {
    Entry& entry = *following.entry;
    if (entry.server != &server || entry.queued) {
      continue;
    }
    if (entry.under_way) {
      entry.again = true;
    } else {
      ask(entry, false);
    }
  }
}

void ReviewBook::tick(TimePoint now) {
  if (first_round_ <= now) {
    first_round_ = TimePoint::max();
    for (auto& [name, server] : servers_) {
      if (server.soon <= now || server.later <= now) {
        server.soon = TimePoint::max();
        server.later = server.later <= now ? TimePoint::max() : server.later;
        round(server, now);
      }
      first_round_ = std::min({first_round_, server.soon, server.later});
    }
  }
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    Entry& entry = *schedule_.begin()->second;
    schedule(entry, TimePoint::max());
    if (!entry.queued && !entry.under_way) {
      ask(entry, false);
    }
  }
}

void ReviewBook::evict() {
  std::size_t looked = 0;
  for (auto at = ages_.begin();
       entries_.size() > limits_.entries && at != ages_.end() && looked < 64; ++looked) {
    const auto found = entries_.find(*at);
    Entry& entry = *found->second;
    if (!entry.followers.empty() || entry.queued || entry.under_way) {
      ++at;
      continue;
    }
    if (--entry.server->entries == 0) {
      servers_.erase(ReviewServer(entry.server->name));
    }
    entries_.erase(found);
    at = ages_.erase(at);
  }
}

}  // namespace kintsugi::aggregation
