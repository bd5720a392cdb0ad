#include "cmd/kintsugi/rebalance_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

namespace kintsugi::cmd {
namespace {

using krm::Json;

class Planner {
 public:
  Planner(const std::vector<RebalanceShard>& shards, std::vector<RebalanceCluster> clusters,
          const RebalanceLimits& limits)
      : limits_(limits), clusters_(std::move(clusters)) {
    for (const RebalanceShard& shard : shards) {
      shards_.emplace(shard.name, &shard);
      loads_[shard.name] = 0;
    }
    for (const RebalanceCluster& cluster : clusters_) {
      loads_[cluster.shard] += weight(cluster);
    }
    std::map<std::string, std::pair<double, double>> groups;  // sum, shards
    for (const auto& [name, shard] : shards_) {
      auto& [sum, count] = groups[group_of(*shard)];
      sum += static_cast<double>(loads_[name]);
      count += shard->unschedulable ? 0 : 1;
    }
    for (const auto& [group, totals] : groups) {
      means_[group] = totals.second > 0 ? totals.first / totals.second : 0;
    }
  }

  RebalancePlan run() {
    RebalancePlan plan;
    std::map<std::string, std::string> stuck;  // why
    for (std::string from = fullest(stuck); !from.empty(); from = fullest(stuck)) {
      if (plan.moves.size() >= limits_.most_moves) {
        stuck[from] = ", after --max-moves";
        continue;
      }
      const auto [cluster, to] = best(from);
      if (cluster == nullptr) {
        stuck[from] = ", and no other shard has room for any of its clusters";
        continue;
      }
      plan.moves.push_back({cluster->name, cluster->path, from, to,
                            from + " has " + ratio_text(from) + " of the mean", cluster->objects,
                            cluster->bytes, cluster->watches});
      loads_[from] -= weight(*cluster);
      loads_[to] += weight(*cluster);
      cluster->shard = to;
      cluster->stays = true;  // once is enough
      stuck.clear();          // there may be room now
    }
    for (const auto& [name, why] : stuck) {
      plan.left.push_back(name + ": " + ratio_text(name) + " of the mean" + why);
    }
    return plan;
  }

 private:
  [[nodiscard]] std::int64_t weight(const RebalanceCluster& cluster) const {
    return limits_.by == RebalanceBy::kBytes     ? cluster.bytes
           : limits_.by == RebalanceBy::kWatches ? cluster.watches
                                                 : cluster.objects;
  }
  [[nodiscard]] std::string group_of(const RebalanceShard& shard) const {
    return limits_.across ? std::string() : shard.region;
  }
  [[nodiscard]] double most(const RebalanceShard& shard) const {
    return std::floor(means_.at(group_of(shard)) * limits_.limit);
  }
  [[nodiscard]] std::string ratio_text(const std::string& name) const {
    const double mean = means_.at(group_of(*shards_.at(name)));
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f",
                  mean > 0 ? static_cast<double>(loads_.at(name)) / mean : 0.0);
    return text;
  }

  /// The shard that is the furthest above the limit; "": none is.
  [[nodiscard]] std::string fullest(const std::map<std::string, std::string>& stuck) const {
    std::string out;
    double worst = 0;
    for (const auto& [name, shard] : shards_) {
      const double above = static_cast<double>(loads_.at(name)) - most(*shard);
      if (above > worst && !stuck.contains(name)) {
        worst = above;
        out = name;
      }
    }
    return out;
  }

  [[nodiscard]] std::string room_for(const RebalanceCluster& cluster) const {
    const RebalanceShard& from = *shards_.at(cluster.shard);
    std::string out;
    for (const auto& [name, shard] : shards_) {
      const bool fits = !shard->unschedulable && name != cluster.shard &&
                        group_of(*shard) == group_of(from) &&
                        static_cast<double>(loads_.at(name) + weight(cluster)) <= most(*shard) &&
                        (!cluster.selector || cluster.selector->matches(shard->labels));
      if (fits && (out.empty() || loads_.at(name) < loads_.at(out))) {
        out = name;
      }
    }
    return out;
  }

  /// The cluster with the fewest bytes that is enough alone; else that which brings most for them.
  [[nodiscard]] std::pair<RebalanceCluster*, std::string> best(const std::string& from) {
    const double above = static_cast<double>(loads_.at(from)) - most(*shards_.at(from));
    std::pair<RebalanceCluster*, std::string> enough{}, most_of{};
    const auto gain = [&](const RebalanceCluster& one) {
      return static_cast<double>(weight(one)) /
             static_cast<double>(std::max<std::int64_t>(1, one.bytes));
    };
    for (RebalanceCluster& one : clusters_) {
      if (one.shard != from || one.stays || weight(one) <= 0) {
        continue;
      }
      const bool is_enough = static_cast<double>(weight(one)) >= above;
      auto& known = is_enough ? enough : most_of;
      const bool is_better = known.first == nullptr ||
                             (is_enough ? one.bytes < known.first->bytes
                                        : std::pair(gain(one), weight(one)) >
                                              std::pair(gain(*known.first), weight(*known.first)));
      if (!is_better) {
        continue;
      }
      if (std::string to = room_for(one); !to.empty()) {
        known = {&one, std::move(to)};
      }
    }
    // Several small ones may be fewer bytes than one that is enough, but not by much: one move.
    return enough.first != nullptr ? enough : most_of;
  }

  const RebalanceLimits& limits_;
  std::map<std::string, const RebalanceShard*> shards_;
  std::vector<RebalanceCluster> clusters_;
  std::map<std::string, std::int64_t> loads_;
  std::map<std::string, double> means_;  // by group
};

}  // namespace

RebalancePlan plan_rebalance(const std::vector<RebalanceShard>& shards,
                             std::vector<RebalanceCluster> clusters,
                             const RebalanceLimits& limits) {
  std::erase_if(clusters, [&](const RebalanceCluster& cluster) {
    return std::none_of(shards.begin(), shards.end(),
                        [&](const RebalanceShard& shard) { return shard.name == cluster.shard; });
  });
  return Planner(shards, std::move(clusters), limits).run();
}

Json to_json(const RebalancePlan& plan) {
  Json moves = Json::array();
  for (const RebalanceMove& move : plan.moves) {
    moves.push_back(Json::object({{"cluster", move.cluster},
                                  {"path", move.path},
                                  {"from", move.from},
                                  {"to", move.to},
                                  {"objects", move.objects},
                                  {"bytes", move.bytes},
                                  {"watches", move.watches},
                                  {"reason", move.reason}}));
  }
  return Json::object({{"kind", "RebalancePlan"}, {"moves", std::move(moves)}});
}

Expected<RebalancePlan> read_rebalance_plan(const std::string& text) {
  const Expected<Json> json = Json::parse(text);
  const Json* moves = json ? json->find("moves") : nullptr;
  if (moves == nullptr || !moves->is_array() || json->text({"kind"}) != "RebalancePlan") {
    return fail(Errc::kConfig, "no plan of `kintsugi rebalance --plan --output json`");
  }
  RebalancePlan plan;
  for (const Json& one : moves->items()) {
    RebalanceMove move;
    move.cluster = one.text({"cluster"});
    move.path = one.text({"path"});
    move.from = one.text({"from"});
    move.to = one.text({"to"});
    move.reason = one.text({"reason"});
    for (const auto& [name, to] :
         {std::pair{"objects", &move.objects}, std::pair{"bytes", &move.bytes},
          std::pair{"watches", &move.watches}}) {
      const Json* const value = one.find(name);
      *to = value == nullptr ? 0 : value->as_integer();
    }
    if (move.cluster.empty() || move.from.empty() || move.to.empty()) {
      return fail(Errc::kConfig, "moves[" + std::to_string(plan.moves.size()) +
                                     "]: cluster, from and to are required");
    }
    plan.moves.push_back(std::move(move));
  }
  return plan;
}

}  // namespace kintsugi::cmd
