#include "serving/watch_list.h"

#include <algorithm>
#include <utility>

#include "krm/path_prefixes.h"
#include "serving/identity.h"
#include "serving/shown_user.h"

namespace kintsugi::serving {

void WatchList::offer(std::size_t queue, TimePoint since, const Describe& describe) {
  ++open_;
  One one{queue, since, nullptr};
  if (first_.size() == kMost) {
    if (!(one < first_.front())) {
      return;
    }
    std::pop_heap(first_.begin(), first_.end());
    first_.pop_back();
  }
  one.describe = describe;
  first_.push_back(std::move(one));
  std::push_heap(first_.begin(), first_.end());
}

std::vector<WatchRow> WatchList::rows(TimePoint now) {
  std::sort_heap(first_.begin(), first_.end());
  std::vector<WatchRow> out;
  out.reserve(first_.size());
  for (const One& one : first_) {
    WatchRow& row = out.emplace_back();
    row.queue = one.queue;
    row.since = one.since;
    row.age = std::chrono::duration_cast<seconds>(now - std::min(now, one.since)).count();
    one.describe(row);
  }
  std::make_heap(first_.begin(), first_.end());
  return out;
}

void name_client(WatchRow& row, const http::PeerInfo& peer) {
  const ConnectionIdentity* identity = identity_of(peer);
  if (identity != nullptr && identity->user) {
    row.user = shown_user(*identity->user);
  }
  row.address = peer.address;
}

void name_target(WatchRow& row, std::string_view target) {
  row.path = target.substr(0, WatchList::kMostPath);
  const std::string_view path = target.substr(0, target.find('?'));
  if (const std::size_t at = path.find(krm::kClustersPrefix); at != std::string_view::npos) {
    const std::string_view rest = path.substr(at + krm::kClustersPrefix.size());
    row.cluster = rest.substr(0, std::min(rest.find('/'), WatchList::kMostPath));
  }
}

}  // namespace kintsugi::serving
