#include "topology/fleet/internal/removal.h"

#include <utility>

namespace kintsugi::topology {
namespace {

constexpr std::size_t kFew = 3;
constexpr std::size_t kMuchPercent = 30;

void drop(std::set<std::string, std::less<>>& keys, std::string_view key) {
  if (const auto found = keys.find(key); found != keys.end()) {
    keys.erase(found);
  }
}

}  // namespace

void RemovalGuard::has(std::string_view key) {
  drop(lacking_, key);
  drop(doubted_, key);
  if (doubted_.empty()) {
    due_ = TimePoint::max();
  }
}

std::vector<std::string> RemovalGuard::listed(std::size_t known, TimePoint now) {
  std::vector<std::string> gone;
  if (std::exchange(confirms_, false)) {
    gone.assign(doubted_.begin(), doubted_.end());
    doubted_.clear();
  }
  std::set<std::string, std::less<>> lacking = std::exchange(lacking_, {});
  const bool is_much = lacking.size() > kFew && lacking.size() * 100 > known * kMuchPercent;
  if (!is_much) {
    gone.insert(gone.end(), lacking.begin(), lacking.end());
  } else {
    doubted_.merge(lacking);
    due_ = now + kConfirmAfter;
  }
  return gone;
}

}  // namespace kintsugi::topology
