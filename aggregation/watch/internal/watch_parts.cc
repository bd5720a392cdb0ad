#include "aggregation/watch/internal/watch_parts.h"

#include <algorithm>

#include "base/log.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kForbids = "it answers 403";

using State = MemberWatch::State;

}  // namespace

WatchPart& WatchParts::add(const Member& member, std::uint64_t component, bool attached) {
  WatchPart& part = parts_.emplace_back();
  part.component = component;
  part.id = member.id;
  part.slot = static_cast<std::uint16_t>(member.slot);
  part.attached = attached;
  return part;
}

std::string WatchParts::name_of(const WatchPart& part) const {
  for (const Member& member : group_.members()) {
    if (member.slot == part.slot) {
      return member.name;
    }
  }
  return {};
}

void WatchParts::note(std::string_view what, const WatchPart& part, std::string_view audit) const {
  log_debug(what, {{"slot", std::uint64_t{part.slot}},
                   {"component", part.component},
                   {"audit", audit},
                   {"path", group_.route().path}});
}

void WatchParts::retire(std::unique_ptr<MemberWatch> stream) {
  stream->stop();
  loop_.post([kept = std::shared_ptr<MemberWatch>(std::move(stream))] {});
}

void WatchParts::open_own() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].own != nullptr) {
      parts_[i].own->open();
    }
  }
}

void WatchParts::give_credit() noexcept {
  for (const WatchPart& part : parts_) {
    if (part.own != nullptr) {
      part.own->give_credit();
    }
  }
}

void WatchParts::stop_own() {
  for (WatchPart& part : parts_) {
    if (part.own != nullptr) {
      retire(std::move(part.own));
    }
  }
}

bool WatchParts::ask_present() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [](const WatchPart& part) {
    return part.own != nullptr && part.component == 0;
  });
}

bool WatchParts::has_other_own(const MemberWatch& from) const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [&from](const WatchPart& part) {
    return !part.attached && part.own.get() != &from;
  });
}

bool WatchParts::has_own_of(std::size_t slot) const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [slot](const WatchPart& part) {
    return !part.attached && (part.slot == slot || part.component != 0);
  });
}

WatchParts::Joined WatchParts::join(WatchPart& part, std::size_t most_behind) {
  const bool absent = part.own->state() == State::kAbsent;
  if (!absent && (!part.own->is_live() || part.own->position() <= kBegun)) {
    return Joined::kNo;
  }
  const std::size_t slot = part.slot;
  if (!group_.follows(slot)) {
    part.own->give_credit();
    group_.adopt(std::move(part.own));
    part.attached = true;
    const bool first = std::none_of(parts_.begin(), parts_.end(), [&part](const WatchPart& one) {
      return &one != &part && one.attached;
    });
    return first ? Joined::kFirst : Joined::kLevel;
  }
  if (absent) {
    if (group_.stream(slot)->state() != State::kAbsent) {
      return Joined::kNo;
    }
    retire(std::move(part.own));
    read_log(part);
    return Joined::kLevel;
  }
  const GroupLog& log = group_.log();
  if (!log.serves(slot, part.component) ||
      log.bytes_from(log.first_after(slot, part.component)) > most_behind) {
    return Joined::kNo;
  }
  group_.learn_objects(*part.own);
  retire(std::move(part.own));
  part.repeats_from = log.end();  // it was told by its own stream
  read_log(part);
  return Joined::kBehind;
}

WatchParts::Left WatchParts::leave(const std::vector<Member>& members) {
  Left left;
  std::erase_if(parts_, [&](WatchPart& part) {
    const bool stays = std::any_of(members.begin(), members.end(), [&part](const Member& member) {
      return member.slot == part.slot && member.id == part.id;
    });
    if (stays || part.leaves_at != 0) {
      return false;
    }
    left.any = true;
    GroupLog::Index until = 0;
    if (part.attached && group_.tells_departure(part.slot, part.component, until)) {
      part.leaves_at = until;
      return false;
    }
    left.objects = left.objects || part.component != 0;
    if (part.own != nullptr) {
      retire(std::move(part.own));
    }
    return true;
  });
  return left;
}

WatchPart* WatchParts::drop(WatchPart& part) {
  const std::size_t slot = part.slot;
  parts_.erase(parts_.begin() + (&part - parts_.data()));
  return find(slot);
}

bool WatchParts::is_rolled_back(std::uint32_t generation) const {
  const SlotHistory& slots = group_.codec().history();
  return std::any_of(parts_.begin(), parts_.end(), [&](const WatchPart& part) {
    return part.component != 0 && part.leaves_at == 0 &&
           slots.rolled_back_since(slots.current().uids[part.slot], generation);
  });
}

bool WatchParts::is_leaving() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const WatchPart& part) { return part.leaves_at != 0; });
}

bool WatchParts::awaits_answer(bool without_lost) const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [this, without_lost](const WatchPart& part) {
    const MemberWatch* stream = stream_of(part);
    if (stream != nullptr &&
        (stream->refusal() != nullptr || (without_lost && stream->state() == State::kWaiting))) {
      return false;
    }
    return part.own != nullptr ? part.own->state() == State::kOpening : !group_.accepted(part.slot);
  });
}

TimePoint WatchParts::silent_since(const WatchPart& part) const noexcept {
  const MemberWatch* stream = stream_of(part);
  return stream == nullptr ? TimePoint::max() : stream->silent_since();
}

bool WatchParts::is_away(const WatchPart& part) const noexcept {
  const MemberWatch* stream = stream_of(part);
  return stream != nullptr && (stream->refusal() != nullptr || stream->state() == State::kWaiting);
}

MergedWatchFsm::Answers WatchParts::answers(TimePoint late) const noexcept {
  MergedWatchFsm::Answers out;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const MemberWatch* stream = stream_of(parts_[i]);
    if (stream != nullptr && stream->refusal() != nullptr) {
      out.refused = std::min(out.refused, i);
    }
    if (silent_since(parts_[i]) < late) {
      out.silent = std::min(out.silent, i);
    }
  }
  out.all_refuse = all_refuse();
  out.all_away =
      !parts_.empty() && std::all_of(parts_.begin(), parts_.end(),
                                     [this](const WatchPart& part) { return is_away(part); });
  return out;
}

bool WatchParts::all_refuse() const noexcept {
  return std::all_of(parts_.begin(), parts_.end(), [this](const WatchPart& part) {
    const MemberWatch* stream = stream_of(part);
    return stream != nullptr && (stream->state() == State::kAbsent || stream->refusal() != nullptr);
  });
}

bool WatchParts::dials() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [this](const WatchPart& part) {
    const MemberWatch* stream = stream_of(part);
    return stream != nullptr && stream->state() == State::kOpening && !stream->is_connected();
  });
}

bool WatchParts::have_present(bool waives_absent) const noexcept {
  return std::all_of(parts_.begin(), parts_.end(), [this, waives_absent](const WatchPart& part) {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr || stream->initial_done() ||
           (waives_absent && !stream->half_begun() && stream->state() == State::kWaiting);
  });
}

bool WatchParts::have_read_present() const noexcept {
  return std::none_of(parts_.begin(), parts_.end(), [this](const WatchPart& part) {
    const MemberWatch* stream = group_.stream(part.slot);
    return part.attached && stream != nullptr && part.component <= kBegun &&
           stream->position() > kBegun;
  });
}

bool WatchParts::is_held_back() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [](const WatchPart& part) {
    return part.own != nullptr && part.own->is_held_back();
  });
}

TimePoint WatchParts::silent_since() const noexcept {
  TimePoint first = TimePoint::max();
  for (const WatchPart& part : parts_) {
    first = std::min(first, silent_since(part));
  }
  return first;
}

WatchParts::Causes WatchParts::away() const {
  Causes out;
  for (const WatchPart& part : parts_) {
    if (is_away(part)) {
      out.emplace_back(name_of(part),
                       stream_of(part)->refusal() != nullptr ? kForbids : "it is away");
    }
  }
  return out;
}

WatchParts::Causes WatchParts::late() const {
  Causes out;
  for (const WatchPart& part : parts_) {
    if (const MemberWatch* stream = stream_of(part); stream != nullptr && !stream->initial_done()) {
      out.emplace_back(name_of(part), "its present objects did not come in time");
    }
  }
  if (out.empty()) {
    out.emplace_back("any", "what its objects are is not known");
  }
  return out;
}

void WatchParts::add_warnings(Warnings& warnings) const {
  for (const WatchPart& part : parts_) {
    const MemberWatch* stream = stream_of(part);
    if (stream == nullptr) {
      continue;
    }
    if (stream->refusal() != nullptr) {
      warnings.add_missing(name_of(part), kForbids);
    } else if (stream->state() == State::kWaiting ||
               (stream->state() == State::kOpening && !stream->is_connected())) {
      warnings.add_missing(name_of(part), "it is away, and joins when it is back");
    } else {
      warnings.add_from(stream->answer().headers);
    }
  }
}

}  // namespace kintsugi::aggregation
