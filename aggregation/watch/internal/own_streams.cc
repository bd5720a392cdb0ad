#include "aggregation/watch/internal/own_streams.h"

namespace kintsugi::aggregation {

void OwnStreams::on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) {
  const TimePoint now = asking_.loop.now();
  parts_.find(from.member().slot)->component = from.position();
  fsm_.on_progress(now);
  group_.learn(facts.facts, facts.columns);
  if (!takes(from, facts)) {
    return;
  }
  feed_.add_event(facts, event);
  group_.ring().deliver_to(facts.facts.revision, feed_.resumable(parts_, fsm_.is_doomed()), now);
}

bool OwnStreams::takes(const MemberWatch& from, const EventFacts& event) {
  using Kind = ClusterHandover::OwnEvent;
  const Kind kind = group_.judge(from.member(), event);
  // What it has of the owner may be newer than what the group knows.
  const bool ahead = kind == Kind::kGone && parts_.has_other_own(from);
  if (kind == Kind::kUnsure || ahead) {
    client_.on_own_expired(false);
    return false;
  }
  return kind != Kind::kLeaveOut;
}

void OwnStreams::on_bookmark(MemberWatch& from, const EventFacts& facts) {
  parts_.find(from.member().slot)->component = from.position();
  group_.learn(facts.facts, facts.columns);
  fsm_.on_position();
}

void OwnStreams::on_initial_end(MemberWatch& from) {
  WatchPart& part = *parts_.find(from.member().slot);
  part.component = from.position();
  flush();
  try_join(part);
  client_.on_own_initial_end();
}

void OwnStreams::on_accepted(MemberWatch& from) {
  if (from.state() == MemberWatch::State::kAbsent) {
    try_join(*parts_.find(from.member().slot));
  }
  client_.on_own_accepted();
}

void OwnStreams::on_batch_end(MemberWatch& from) {
  flush();
  if (feed_.has_room()) {
    from.give_credit();
  }
  WatchPart* part = parts_.find(from.member().slot);
  if (part != nullptr && part->own.get() == &from) {
    try_join(*part);
  }
  client_.on_own_batch();
}

void OwnStreams::on_too_large(MemberWatch& from, const std::string& key) {
  client_.on_own_failed(event_too_large(from, key, asking_.params.max_event), "large");
}

void OwnStreams::on_fault(MemberWatch& /*from*/) { client_.on_own_fault(); }

void OwnStreams::flush() {
  if (fsm_.has_head()) {
    feed_.flush();
  }
}

void OwnStreams::try_join(WatchPart& part) {
  if (part.own == nullptr || fsm_.has_ended()) {
    return;
  }
  switch (parts_.join(part, asking_.params.private_high)) {
    case WatchParts::Joined::kFirst:
      feed_.skip_log();
      return;
    case WatchParts::Joined::kBehind:
      parts_.note("a watch reads the log of its group", part, audit_);
      feed_.catch_up(parts_, part, fsm_.has_head(), fsm_.is_doomed());
      return;
    case WatchParts::Joined::kLevel:
    case WatchParts::Joined::kNo:
      return;
  }
}

}  // namespace kintsugi::aggregation
