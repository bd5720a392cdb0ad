#include "workers/eventing/scheduling/pool_scheduler.h"

#include <utility>

#include "base/strings.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/scheduling/internal/pool_core.h"

namespace kintsugi::workers {

std::optional<std::int32_t> pod_ordinal(std::string_view stateful_set,
                                        std::string_view pod) noexcept {
  if (!pod.starts_with(stateful_set) || pod.size() < stateful_set.size() + 2 ||
      pod[stateful_set.size()] != '-') {
    return std::nullopt;
  }
  const std::string_view digits = pod.substr(stateful_set.size() + 1);
  const bool padded = digits.size() > 1 && digits.front() == '0';
  return padded ? std::nullopt : parse_decimal<std::int32_t>(digits);
}

PoolScheduler::PoolScheduler(PoolSettings settings)
    : core_(std::make_unique<Core>(std::move(settings))) {}
PoolScheduler::~PoolScheduler() = default;

void PoolScheduler::set_replicas(std::int64_t replicas, TimePoint now) {
  core_->set_replicas(replicas, now);
}
Expected<void> PoolScheduler::set_pod(const DispatcherPod& pod, TimePoint now) {
  return core_->set_pod(pod, now);
}
void PoolScheduler::pod_gone(std::string_view name, TimePoint now) { core_->pod_gone(name, now); }
PoolScheduler::Loaded PoolScheduler::load(std::span<const PoolGroup> groups,
                                          std::span<const MoveRow> moves, TimePoint now) {
  return core_->load(groups, moves, now);
}
bool PoolScheduler::is_loaded() const noexcept { return core_->loaded; }
void PoolScheduler::set(const PoolGroup& group) { core_->set(group); }
void PoolScheduler::remove(std::string_view key) { core_->remove(key); }
PoolChanges PoolScheduler::decide(TimePoint now) { return core_->decide(now); }
std::optional<TimePoint> PoolScheduler::next_timer() const { return core_->next_timer(); }
std::vector<Placed> PoolScheduler::begin_write(std::string_view key) {
  return core_->begin_write(key);
}
void PoolScheduler::written(std::string_view key, std::span<const Placed> placements) {
  core_->written(key, placements);
}
void PoolScheduler::not_written(std::string_view key) { core_->not_written(key); }
void PoolScheduler::told(std::string_view pod, const SeenDecisions& seen) {
  core_->told(pod, seen);
}
void PoolScheduler::joined(std::string_view pod, std::string_view key, std::int64_t members) {
  core_->joined(pod, key, members);
}
std::size_t PoolScheduler::compact(TimePoint now) {
  return core_->start_moves(core_->placement.compact(core_->placement.tick_budget()), now);
}
std::size_t PoolScheduler::rebalance(TimePoint now) {
  return core_->start_moves(core_->placement.rebalance(core_->placement.tick_budget()), now);
}
std::vector<std::string> PoolScheduler::groups_on(std::string_view pod) const {
  return core_->groups_on(pod);
}
AutoscalerView PoolScheduler::view() { return core_->view(); }
std::size_t PoolScheduler::size() const noexcept { return core_->groups.size(); }
std::size_t PoolScheduler::moving() const noexcept { return core_->moving.size(); }
std::size_t PoolScheduler::pending_groups() const noexcept {
  return core_->placement.pending_claims();
}
std::uint64_t PoolScheduler::moves_total() const noexcept { return core_->moves_total; }

std::vector<PoolScheduler::Joining> PoolScheduler::joining() const {
  std::vector<Joining> out;
  for (const std::string& key : core_->moving) {
    for (std::string& pod : core_->groups.find(key)->second.move->joining()) {
      out.push_back({key, std::move(pod)});
    }
  }
  return out;
}

std::optional<GroupPlace> PoolScheduler::place(std::string_view key) const {
  return core_->place(key);
}
std::vector<Placed> PoolScheduler::contract(std::string_view key) const {
  return core_->contract(key);
}
std::optional<std::string> PoolScheduler::move_row(std::string_view key) const {
  return core_->move_row(key);
}

std::optional<GroupPlace> PoolScheduler::Core::place(std::string_view key) const {
  const auto at = groups.find(key);
  if (at == groups.end()) {
    return std::nullopt;
  }
  const Group& group = at->second;
  GroupPlace out;
  out.placements = group.target;
  out.write = group.write && !group.in_flight && group.fault.empty() &&
              (!group.move || group.move->step() == MoveStep::kCommitting);
  out.pending = group.pending;
  out.why = group.why;
  out.too_large = group.too_large;
  if (group.move) {
    out.move = group.move->step();
    out.digests = group.move->digests();
  } else {
    out.digests = {placements_digest(group.claim.status)};
  }
  if (!group.fault.empty()) {
    out.message = group.fault;
  } else if (group.too_large) {
    out.message =
        "its entry of " + std::to_string(group.claim.entry_bytes) +
        " bytes is larger than a contract may be: " + std::to_string(settings.contract_bytes);
  } else if (group.pending > 0) {
    out.message = std::to_string(group.pending) + " of " +
                  std::to_string(group.pending + sum_of_placements(group.target)) +
                  " vreplicas have no place: " +
                  (group.why == Pending::kEntryRoom
                       ? "no pod's contract has room for " +
                             std::to_string(group.claim.entry_bytes) + " bytes more"
                   : group.why == Pending::kNoHosts ? std::string("there is no pod that takes any")
                                                    : std::string("no pod has room for one more"));
  }
  return out;
}

std::vector<Placed> PoolScheduler::Core::contract(std::string_view key) const {
  const auto at = groups.find(key);
  return at == groups.end() ? std::vector<Placed>() : at->second.contract;
}

std::vector<std::string> PoolScheduler::Core::groups_on(std::string_view pod) const {
  const auto at = on_pods_.find(pod);
  return at == on_pods_.end() ? std::vector<std::string>()
                              : std::vector<std::string>(at->second.begin(), at->second.end());
}

std::optional<std::string> PoolScheduler::Core::move_row(std::string_view key) const {
  const auto at = groups.find(key);
  return at == groups.end() || !at->second.move ? std::nullopt
                                                : std::optional(at->second.move->encode());
}

}  // namespace kintsugi::workers
