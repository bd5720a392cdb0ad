#include "aggregation/watch/internal/watch_opening.h"

#include <algorithm>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"

namespace kintsugi::aggregation {
namespace {

using Beginning = WatchOpening::Beginning;

/// @param initial  present objects are asked for
Beginning begin_at(DecodedVersion version, bool initial) {
  Beginning out;
  if (version.kind == VersionClass::kUnknown || version.kind == VersionClass::kFuture ||
      !version.departed.empty() || (version.kind == VersionClass::kNative && !initial)) {
    out.lost = version.reason.empty() ? "native" : version.reason;
  }
  out.at = std::move(version);
  return out;
}

/// What a shard is asked for. @param any_state  resourceVersion=0
WatchStart start_at_component(std::uint64_t component, std::optional<bool> initial_events,
                              bool any_state) {
  WatchStart from;
  from.revision = component;
  from.any_state = any_state;
  from.initial_events = initial_events.value_or(false) || component == 0;
  if (initial_events == std::optional(false) && component == 0) {
    from.initial_events = false;
    from.recent = true;
  }
  return from;
}

}  // namespace

void WatchOpening::find_beginning(Watches& watches, WatchGroup& group,
                                  const std::string& resource_version, bool initial,
                                  std::function<void(const Beginning&)> then) {
  const auto refuse = [&then](Error error) {
    Beginning out;
    out.refusal = std::move(error);
    then(out);
  };
  if (group.members().empty()) {
    refuse(shards_unavailable({{"none", "no shard is known"}}, true));
    return;
  }
  const CursorCodec& codec = group.codec();
  const std::vector<bool> flags = member_flags(codec.history(), group.members());
  DecodedVersion version = codec.decode(resource_version, flags);
  if (version.kind == VersionClass::kMalformed) {
    refuse(version_malformed(resource_version));
  } else if (version.kind == VersionClass::kNative && !initial) {
    find_place(watches, group, version.native, flags, std::move(then));
  } else {
    then(begin_at(std::move(version), initial));
  }
}

void WatchOpening::find_place(Watches& watches, WatchGroup& group, std::uint64_t revision,
                              const std::vector<bool>& flags,
                              std::function<void(const Beginning&)> then) {
  const auto decode = [&group, size = flags.size(), then = std::move(then)](ResumeRing::Found at) {
    const auto unfit = [](std::uint64_t component) { return component == kBegun; };
    DecodedVersion version;
    version.kind = VersionClass::kNative;
    if (at.known && at.components.size() == size &&
        size == group.codec().history().current().uids.size() &&
        std::none_of(at.components.begin(), at.components.end(), unfit)) {
      version.kind = VersionClass::kCursor;
      version.components = std::move(at.components);
    }
    then(begin_at(std::move(version), false));
  };
  if (watches.find_deliveries) {
    watches.find_deliveries(group.key(), revision, flags, asked_.emplace().guard(decode));
  } else {
    decode(watches.find_delivery(group.key(), revision, flags));
  }
}

void WatchOpening::stop() noexcept {
  asked_.reset();
  headers_.cancel();
}

void place_parts(const DecodedVersion& at, std::optional<bool> initial_events, WatchGroup& group,
                 WatchParts& parts, ClientFeed& feed, MemberWatch::Sink& sink,
                 std::string_view audit) {
  parts.reserve(group.members().size());
  for (const Member& member : group.members()) {
    const std::uint64_t component =
        at.kind == VersionClass::kCursor ? at.components[member.slot] : 0;
    if (!member.needed && component == 0) {
      continue;
    }
    WatchPart& part = parts.add(member, component, false);
    const WatchStart from =
        start_at_component(component, initial_events, at.kind == VersionClass::kZero);
    if (!from.initial_events && !from.recent && group.follow(member, component)) {
      parts.note("a watch reads the log of its group", part, audit);
      WatchParts::read_log(part);
      feed.catch_up(parts, part, false, false);
      continue;
    }
    part.component = from.initial_events ? 0 : from.revision;
    if (!from.initial_events) {
      group.find_kind();
    }
    part.own = group.streams().make(sink, member, from);
    parts.note("a watch has a stream of its own", part, audit);
  }
}

}  // namespace kintsugi::aggregation
