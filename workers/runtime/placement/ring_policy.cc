#include "workers/runtime/placement/ring_policy.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace kintsugi::workers {
namespace {

std::uint64_t rank_of(std::size_t partition, std::string_view uid, std::string& text) {
  std::array<char, 8> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), partition);
  (void)error;  // four digits fit
  text.assign(digits.data(), end);
  text.push_back('|');
  text.append(uid);
  return XXH64(text.data(), text.size(), 0);
}

class Assignment {
 public:
  Assignment(std::span<const RingMember> members, std::span<const std::uint32_t> weights,
             std::span<const std::uint16_t> current)
      : members_(members),
        weights_(weights.size() == kPartitions ? weights : std::span<const std::uint32_t>()),
        limits_(ring_limits(members, weights_)),
        load_(members.size()),
        count_(members.size()) {
    for (std::size_t i = 0; i < members.size() && i < kNobody; ++i) {
      if (!members[i].leaving) {
        staying_.push_back(static_cast<std::uint16_t>(i));
      }
    }
    owners_.fill(kNobody);
    for (std::size_t p = 0; p < kPartitions && current.size() == kPartitions; ++p) {
      if (current[p] < members.size()) {
        give(p, current[p]);
      }
    }
  }

  [[nodiscard]] bool nobody_stays() const noexcept { return staying_.empty(); }
  [[nodiscard]] const Owners& owners() const noexcept { return owners_; }
  [[nodiscard]] bool above(std::size_t member) const noexcept {
    return load_[member] > limits_.weight || count_[member] > limits_.partitions;
  }

  void join() {
    std::vector<bool> joins(members_.size());
    bool any = false;
    for (const std::uint16_t m : staying_) {
      joins[m] = count_[m] == 0;
      any = any || joins[m];
    }
    if (!any) {
      return;
    }
    const std::uint64_t n = staying_.size();
    const std::uint64_t total = std::accumulate(load_.begin(), load_.end(), std::uint64_t{0});
    const std::uint64_t mean = (total + n - 1) / n;
    const std::uint64_t mean_count = (kPartitions + n - 1) / n;
    for (std::size_t p = 0; p < kPartitions; ++p) {
      if (owners_[p] == kNobody || members_[owners_[p]].leaving) {
        continue;
      }
      const std::uint16_t first = preferred(p);
      const bool room =
          count_[first] < mean_count && fits(p, first) && (weight(p) == 0 || load_[first] < mean);
      if (joins[first] && room) {
        give(p, first);
      }
    }
  }

  void adopt() {
    std::vector<std::size_t> orphans;
    for (std::size_t p = 0; p < kPartitions; ++p) {
      if (owners_[p] == kNobody || members_[owners_[p]].leaving) {
        orphans.push_back(p);
      }
    }
    std::stable_sort(orphans.begin(), orphans.end(),
                     [this](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
    for (const std::size_t p : orphans) {
      order(p);
      const auto found = std::find_if(order_.begin(), order_.end(),
                                      [&](const Ranked& r) { return fits(p, r.member); });
      give(p, found != order_.end() ? found->member : lightest());
    }
  }

  /// The smallest partition that alone is enough, else the largest that helps; where it does not
  /// fit elsewhere the next one is tried.
  void relieve(std::uint16_t member) {
    if (member >= members_.size() || members_[member].leaving) {
      return;
    }
    while (above(member)) {
      std::vector<std::size_t> own;
      for (std::size_t p = 0; p < kPartitions; ++p) {
        if (owners_[p] == member) {
          own.push_back(p);
        }
      }
      const std::uint64_t excess =
          load_[member] > limits_.weight ? load_[member] - limits_.weight : 0;
      std::stable_sort(own.begin(), own.end(), [&](std::size_t a, std::size_t b) {
        const bool enough_a = weight(a) >= excess;
        const bool enough_b = weight(b) >= excess;
        if (enough_a != enough_b) {
          return enough_a;
        }
        return enough_a ? weight(a) < weight(b) : weight(a) > weight(b);
      });
      if (!move_one(own, member, excess > 0)) {
        return;
      }
    }
  }

 private:
  struct Ranked {
    std::uint64_t rank;
    std::uint16_t member;
  };

  [[nodiscard]] std::uint64_t weight(std::size_t p) const noexcept {
    return weights_.empty() ? 0 : weights_[p];
  }
  [[nodiscard]] bool fits(std::size_t p, std::uint16_t member) const noexcept {
    return load_[member] + weight(p) <= limits_.weight && count_[member] + 1 <= limits_.partitions;
  }
  [[nodiscard]] bool before(const Ranked& a, const Ranked& b) const noexcept {
    return a.rank != b.rank ? a.rank > b.rank : members_[a.member].uid < members_[b.member].uid;
  }
  void order(std::size_t p) {
    order_.clear();
    for (const std::uint16_t m : staying_) {
      order_.push_back({rank_of(p, members_[m].uid, text_), m});
    }
    std::sort(order_.begin(), order_.end(),
              [this](const Ranked& a, const Ranked& b) { return before(a, b); });
  }
  [[nodiscard]] std::uint16_t preferred(std::size_t p) {
    Ranked best{0, kNobody};
    for (const std::uint16_t m : staying_) {
      const Ranked next{rank_of(p, members_[m].uid, text_), m};
      if (best.member == kNobody || before(next, best)) {
        best = next;
      }
    }
    return best.member;
  }
  /// Of those in the order of the last order() call, so that a tie falls to the preferred one.
  [[nodiscard]] std::uint16_t lightest() const {
    const auto least =
        std::min_element(order_.begin(), order_.end(), [this](const Ranked& a, const Ranked& b) {
          return load_[a.member] != load_[b.member] ? load_[a.member] < load_[b.member]
                                                    : count_[a.member] < count_[b.member];
        });
    return least->member;
  }
  void give(std::size_t p, std::uint16_t member) noexcept {
    if (owners_[p] != kNobody) {
      load_[owners_[p]] -= weight(p);
      --count_[owners_[p]];
    }
    owners_[p] = member;
    load_[member] += weight(p);
    ++count_[member];
  }
  [[nodiscard]] bool move_one(const std::vector<std::size_t>& own, std::uint16_t member,
                              bool by_weight) {
    for (const std::size_t p : own) {
      if (by_weight && weight(p) == 0) {
        continue;
      }
      order(p);
      for (const Ranked& to : order_) {
        if (to.member != member && fits(p, to.member)) {
          give(p, to.member);
          return true;
        }
      }
    }
    return false;
  }

  std::span<const RingMember> members_;
  std::span<const std::uint32_t> weights_;
  RingLimits limits_;
  std::vector<std::uint64_t> load_;   // by member
  std::vector<std::uint64_t> count_;  // by member
  std::vector<std::uint16_t> staying_;
  std::vector<Ranked> order_;
  std::string text_;
  Owners owners_{};
};

}  // namespace

std::uint16_t partition_of(std::string_view ring_key) noexcept {
  return static_cast<std::uint16_t>(XXH64(ring_key.data(), ring_key.size(), 0) % kPartitions);
}

RingLimits ring_limits(std::span<const RingMember> members,
                       std::span<const std::uint32_t> weights) noexcept {
  const auto staying = static_cast<std::uint64_t>(std::count_if(
      members.begin(), members.end(), [](const RingMember& m) { return !m.leaving; }));
  if (staying == 0) {
    return {};
  }
  std::uint64_t total = 0;
  std::uint64_t heaviest = 0;
  for (const std::uint32_t w : weights) {
    total += w;
    heaviest = std::max<std::uint64_t>(heaviest, w);
  }
  // ceil(5 x / (4 n))
  const auto quarter_more = [staying](std::uint64_t x) {
    return (5 * x + 4 * staying - 1) / (4 * staying);
  };
  return {std::max(quarter_more(total), heaviest), quarter_more(kPartitions)};
}

std::vector<std::uint16_t> members_above_limit(std::span<const RingMember> members,
                                               std::span<const std::uint32_t> weights,
                                               std::span<const std::uint16_t> current) {
  const Assignment now(members, weights, current);
  std::vector<std::uint16_t> above;
  for (std::size_t i = 0; i < members.size() && i < kNobody; ++i) {
    if (!members[i].leaving && now.above(i)) {
      above.push_back(static_cast<std::uint16_t>(i));
    }
  }
  return above;
}

Owners assign(std::span<const RingMember> members, std::span<const std::uint32_t> weights,
              std::span<const std::uint16_t> current, std::span<const std::uint16_t> relieve) {
  Assignment next(members, weights, current);
  if (next.nobody_stays()) {
    return next.owners();
  }
  next.join();
  next.adopt();
  for (const std::uint16_t member : relieve) {
    next.relieve(member);
  }
  return next.owners();
}

}  // namespace kintsugi::workers
