#include "aggregation/list/list_probe.h"

#include <utility>
#include <vector>

#include "aggregation/asking/jitter.h"

namespace kintsugi::aggregation {

ListProbe::ListProbe(Asking& shared, ShardQuestion& question,
                     std::optional<topology::ShardId> shard,
                     std::function<void(const ListEnvelope&)> known)
    : shared_(shared),
      question_(question),
      shard_(shard),
      known_(std::move(known)),
      retry_(shared.loop) {}

void ListProbe::start() {
  const std::vector<Member> members = question_.route.members();
  if (!shard_ && members.empty()) {
    again();
    return;
  }
  const topology::ShardId asked = shard_ ? *shard_ : members[next_++ % members.size()].id;
  ShardPages::Listener& self = *this;
  pages_ = std::make_unique<ShardPages>(shared_, self, asked, question_, ListQuery{.probe = true});
  if (!pages_->start()) {
    again();
  }
}

void ListProbe::again() {
  retry_.start(about(seconds(2)), [this] { start(); });
}

void ListProbe::on_pages_end(ShardPages::End end) {
  const ListEnvelope& list = pages_->envelope();
  if (end != ShardPages::End::kDone || list.kind.empty()) {
    again();
    return;
  }
  known_(list);
}

}  // namespace kintsugi::aggregation
