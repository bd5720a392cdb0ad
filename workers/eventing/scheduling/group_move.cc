#include "workers/eventing/scheduling/group_move.h"

#include <algorithm>
#include <utility>

#include "krm/json.h"
#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kStepTexts[] = {"Adding", "Joining", "Removing", "Committing"};

/// On each pod the more of both.
std::vector<Placed> both_of(const std::vector<Placed>& from, const std::vector<Placed>& to) {
  std::vector<Placed> out = from;
  for (const Placed& placed : to) {
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const Placed& one) { return one.host == placed.host; });
    if (same == out.end()) {
      out.push_back(placed);
    } else {
      same->n = std::max(same->n, placed.n);
    }
  }
  return out;
}

Json placements_json(const std::vector<Placed>& placements) {
  Json status;
  write_status_placeable(status, {std::nullopt, placements});
  return status;
}

}  // namespace

std::string_view move_step_text(MoveStep step) noexcept {
  return kStepTexts[static_cast<std::size_t>(step)];
}

GroupMove::GroupMove(std::vector<Placed> from, std::vector<Placed> to, TimePoint now, Times times)
    : from_(std::move(from)),
      to_(std::move(to)),
      both_(both_of(from_, to_)),
      times_(times),
      since_(now) {
  enter(MoveStep::kAdding);
  begun_ = true;
}

std::optional<GroupMove> GroupMove::parse(std::string_view row, TimePoint now, Times times) {
  const auto json = Json::parse(row);
  if (!json || !json->is_object()) {
    return std::nullopt;
  }
  const auto step = std::find(std::begin(kStepTexts), std::end(kStepTexts), json->text({"step"}));
  const Json* const from = json->find("from");
  const Json* const to = json->find("to");
  if (step == std::end(kStepTexts) || from == nullptr || to == nullptr) {
    return std::nullopt;
  }
  GroupMove out(read_status_placeable(*from).placeable.placements,
                read_status_placeable(*to).placeable.placements, now, times);
  out.enter(static_cast<MoveStep>(step - std::begin(kStepTexts)));
  out.since_ = now;
  out.begun_ = true;
  return out;
}

std::string GroupMove::encode() const {
  return Json::object({{"from", placements_json(from_)},
                       {"step", move_step_text(step_)},
                       {"to", placements_json(to_)}})
      .dump();
}

std::vector<std::string> GroupMove::digests() const {
  return {placements_digest(from_), placements_digest(both_), placements_digest(to_)};
}

void GroupMove::enter(MoveStep step) {
  step_ = step;
  begun_ = false;
  waiting_.clear();
  if (step == MoveStep::kCommitting) {
    return;
  }
  for (const Placed& placed : both_) {
    const bool grows = placed_on(to_, placed.host) > placed_on(from_, placed.host);
    if (grows || step == MoveStep::kRemoving) {
      waiting_.insert(placed.host);
    }
  }
}

bool GroupMove::heard(std::string_view pod) {
  if (const auto at = waiting_.find(pod); at != waiting_.end()) {
    waiting_.erase(at);
  }
  if (!waiting_.empty() || step_ == MoveStep::kCommitting) {
    return false;
  }
  enter(next());
  return true;
}

bool GroupMove::seen(std::string_view pod, std::string_view digest) {
  const bool asks = step_ == MoveStep::kAdding || step_ == MoveStep::kRemoving;
  return asks && waiting_.contains(pod) && digest == placements_digest(contract()) && heard(pod);
}

bool GroupMove::joined(std::string_view pod, std::int64_t members) {
  return step_ == MoveStep::kJoining && waiting_.contains(pod) &&
         members >= placed_on(both_, pod) && heard(pod);
}

bool GroupMove::pod_gone(std::string_view pod) {
  return step_ == MoveStep::kRemoving && waiting_.contains(pod) && heard(pod);
}

bool GroupMove::elapsed(TimePoint now) {
  if (step_ == MoveStep::kCommitting || given_up_) {
    return false;
  }
  if (!begun_) {
    begun_ = true;
    since_ = now;
  }
  const Duration patience = step_ == MoveStep::kJoining ? times_.join : times_.seen;
  if (now - since_ < patience) {
    return false;
  }
  if (step_ == MoveStep::kAdding) {
    given_up_ = true;
    return false;
  }
  unconfirmed_ = unconfirmed_ || step_ == MoveStep::kJoining;
  enter(next());
  begun_ = true;
  since_ = now;
  return true;
}

std::optional<TimePoint> GroupMove::due() const noexcept {
  if (step_ == MoveStep::kCommitting || given_up_) {
    return std::nullopt;
  }
  const Duration patience = step_ == MoveStep::kJoining ? times_.join : times_.seen;
  return begun_ ? since_ + patience : TimePoint();
}

}  // namespace kintsugi::workers
