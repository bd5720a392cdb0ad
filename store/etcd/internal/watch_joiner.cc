#include "store/etcd/internal/watch_joiner.h"

#include <utility>

namespace kintsugi::store::etcd {

Joined WatchJoiner::broken(std::string reason) {
  broken_ = true;
  open_ = {};
  Joined out;
  out.kind = Joined::Kind::kBroken;
  out.reason = std::move(reason);
  return out;
}

/// The revision that was being collected is complete.
void WatchJoiner::close(Joined& out) {
  if (open_.events.empty()) {
    return;
  }
  position_ = open_.revision;
  out.kind = Joined::Kind::kGroups;
  out.groups.push_back(std::exchange(open_, {}));
  open_bytes_ = 0;
}

Joined WatchJoiner::on_response(const WatchResponse& response) {
  if (broken_) {
    return broken("the stream was given up");
  }
  Joined out;
  if (response.canceled) {
    out.kind = response.compact_revision != 0 ? Joined::Kind::kCompacted : Joined::Kind::kCanceled;
    out.revision = response.compact_revision;
    out.reason = response.cancel_reason;
    return out;
  }
  if (response.created) {
    out.kind = Joined::Kind::kCreated;
    return out;
  }
  if (response.header.revision < last_) {
    return broken("the revision goes back");
  }
  for (const WatchedEvent& event : response.events) {
    const std::uint64_t revision = event.kv.mod_revision;
    if (revision == 0 || revision < last_ || revision > response.header.revision) {
      return broken("events are out of order");
    }
    last_ = revision;
    if (revision <= position_) {
      continue;
    }
    if (revision != open_.revision) {
      close(out);
      open_.revision = revision;
    }
    open_bytes_ += sizeof(JoinedEvent) + event.kv.key.size() + event.kv.value.size();
    if (open_bytes_ > limit_) {
      return broken("a revision of more than " + std::to_string(limit_) + " bytes");
    }
    open_.events.push_back({event.is_delete, std::string(event.kv.key), std::string(event.kv.value),
                            event.kv.create_revision});
  }
  if (response.fragment) {
    return out;
  }
  close(out);
  if (response.events.empty() && out.groups.empty() && response.header.revision >= position_) {
    out.kind = Joined::Kind::kProgress;
    out.revision = response.header.revision;
  }
  return out;
}

}  // namespace kintsugi::store::etcd
