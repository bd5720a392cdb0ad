#include "store/etcd/internal/key_order.h"

#include <algorithm>
#include <utility>

namespace kintsugi::store::etcd {

/// The first of the line; and if that one shares, those behind it that do, too.
void KeyOrder::grant(std::deque<Waiter>& line, std::vector<std::uint64_t>& ready) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    Waiter& waiter = line[i];
    if (i > 0 && !waiter.shared) {
      return;
    }
    if (!waiter.granted) {
      waiter.granted = true;
      if (--owners_.find(waiter.number)->second.missing == 0) {
        ready.push_back(waiter.number);
      }
    }
    if (!waiter.shared) {
      return;
    }
  }
}

void KeyOrder::add(std::uint64_t number, std::vector<KeyUse> uses,
                   std::vector<std::uint64_t>& ready) {
  Owner& owner = owners_[number];
  owner.uses = std::move(uses);
  owner.missing = owner.uses.size();
  if (owner.missing == 0) {
    ready.push_back(number);
    return;
  }
  for (const KeyUse& use : owner.uses) {
    std::deque<Waiter>& line = lines_[use.key];
    line.push_back({number, use.shared, false});
    grant(line, ready);
  }
}

void KeyOrder::remove(std::uint64_t number, std::vector<std::uint64_t>& ready) {
  const auto found = owners_.find(number);
  if (found == owners_.end()) {
    return;
  }
  const std::vector<KeyUse> uses = std::move(found->second.uses);
  owners_.erase(found);
  for (const KeyUse& use : uses) {
    const auto line = lines_.find(use.key);
    std::erase_if(line->second, [number](const Waiter& one) { return one.number == number; });
    if (line->second.empty()) {
      lines_.erase(line);
    } else {
      grant(line->second, ready);
    }
  }
}

}  // namespace kintsugi::store::etcd
