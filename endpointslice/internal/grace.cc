#include "endpointslice/internal/grace.h"

#include <utility>

namespace kintsugi::endpointslice {

Grace::Verdict Grace::judge(std::string_view slice, const std::vector<std::string>& what,
                            TimePoint now) {
  Verdict verdict;
  if (what.empty() || limit_ <= Duration::zero()) {
    forget(slice);
    return verdict;
  }
  std::map<std::string, TimePoint>& before = since_[std::string(slice)];
  std::map<std::string, TimePoint> present;
  for (const std::string& one : what) {
    const auto known = before.find(one);
    const TimePoint since = known == before.end() ? now : known->second;
    verdict.began = verdict.began || known == before.end();
    present.emplace(one, since);
    if (now - since < limit_) {
      verdict.passing.push_back(one);
    }
  }
  before = std::move(present);
  return verdict;
}

bool Grace::passes(std::string_view slice, const std::string& one, TimePoint now) const {
  const auto found = since_.find(slice);
  if (found == since_.end()) {
    return false;
  }
  const auto since = found->second.find(one);
  return since != found->second.end() && now - since->second < limit_;
}

void Grace::forget(std::string_view slice) {
  if (const auto found = since_.find(slice); found != since_.end()) {
    since_.erase(found);
  }
}

}  // namespace kintsugi::endpointslice
