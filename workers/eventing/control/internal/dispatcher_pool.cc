#include "workers/eventing/control/internal/dispatcher_pool.h"

#include <algorithm>
#include <utility>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

/// Calls `visit(key, group, placements, units)` for what the pod's contract holds.
template <class Visit>
void each_on(const DispatcherPool& pool, std::string_view pod, Visit&& visit) {
  for (const std::string& key : pool.scheduler.groups_on(pod)) {
    const auto at = pool.groups.find(key);
    if (at == pool.groups.end() || at->second.entry.trouble != GroupTrouble::kNone) {
      continue;
    }
    const std::vector<Placed> placements = pool.scheduler.contract(key);
    if (const std::int64_t units = placed_on(placements, pod); units > 0) {
      visit(key, at->second, placements, units);
    }
  }
}

}  // namespace

Contract pod_contract(const DispatcherPool& pool, std::string_view pod) {
  Contract out;
  each_on(pool, pod,
          [&out](const std::string&, const PooledGroup& group, const std::vector<Placed>&,
                 std::int64_t units) {
            ContractResource resource = group.entry.resource;
            resource.egresses.front().vreplicas =
                static_cast<std::int32_t>(std::min<std::int64_t>(units, kMaxVReplicas));
            out.resources.push_back(std::move(resource));
          });
  return out;
}

SeenDecisions seen_of_contract(const DispatcherPool& pool, std::string_view pod) {
  SeenDecisions out;
  each_on(pool, pod,
          [&out](const std::string& key, const PooledGroup& group,
                 const std::vector<Placed>& placements, std::int64_t) {
            out[key] = {group.generation, placements_digest(placements)};
          });
  return out;
}

ContractPlan plan_contract(Contract wish, std::optional<std::string_view> data, std::uint64_t noted,
                           std::uint64_t known, std::uint64_t epoch, ContractFormat format) {
  ContractPlan out;
  ContractFormat had_format = format;
  std::optional<Contract> had;
  if (data) {
    if (auto parsed = parse_contract(*data, &had_format)) {
      had = std::move(*parsed);
    }
  }
  const std::uint64_t highest = std::max(noted, had ? had->epoch : 0);
  if (highest > epoch) {
    out.what = ContractPlan::What::kOvertaken;
    return out;
  }
  const std::uint64_t generation = std::max(known, had ? had->generation : 0);
  if (had) {
    keep_unknown_fields(wish, *had);
  }
  if (had && had->generation > 0 && had->generation >= known && had_format == format &&
      same_content(wish, *had)) {
    out.generation = had->generation;
    return out;
  }
  out.what = ContractPlan::What::kWrite;
  out.generation = wish.generation = generation + 1;
  wish.epoch = epoch;
  out.data = encode_contract(wish, format);
  return out;
}

}  // namespace kintsugi::workers
