#include "proxy/console/internal/timeline.h"

#include <algorithm>
#include <set>

#include "proxy/admin/shard_health.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using Stats = aggregation::MergeStats;

struct Eviction {
  const char* reason;
  std::uint64_t Stats::*count;
};
constexpr Eviction kEvictions[] = {
    {"slow", &Stats::evicted_slow},           {"memory", &Stats::evicted_memory},
    {"stall", &Stats::evicted_stall},         {"drain", &Stats::evicted_drain},
    {"forbidden", &Stats::evicted_forbidden}, {"review", &Stats::evicted_unreviewed}};

const std::string kNothing;
const std::string kShard = "shard";

const std::string& state_in(const TimelineSample::States& states,
                            const TimelineSample::States::key_type& key) {
  const auto found = states.find(key);
  return found != states.end() ? found->second : kNothing;
}

}  // namespace

void Timeline::add(std::int64_t at, std::string kind, std::string shard, std::string reason,
                   std::uint64_t count) {
  if (events_.size() == kMost) {
    events_.pop_front();
  }
  events_.push_back({++next_, at, std::move(kind), std::move(shard), std::move(reason), count});
}

void Timeline::take(TimelineSample sample, std::int64_t at) {
  if (begun_) {
    for (const auto& [key, count] : sample.counts) {
      const auto found = before_.counts.find(key);
      const std::uint64_t was = found != before_.counts.end() ? found->second : 0;
      if (count > was) {
        add(at, std::get<0>(key), std::get<1>(key), std::get<2>(key), count - was);
      }
    }
  }
  before_.counts = std::move(sample.counts);
  take_states(std::move(sample.states), at);
  begun_ = true;
}

void Timeline::take_shards(const TimelineSample::States& shards, std::int64_t at) {
  TimelineSample::States all = before_.states;
  std::erase_if(all, [](const auto& one) { return one.first.first == kShard; });
  all.insert(shards.begin(), shards.end());
  take_states(std::move(all), at);
}

void Timeline::take_states(TimelineSample::States states, std::int64_t at) {
  if (begun_) {
    for (const auto& [key, state] : states) {
      if (state != state_in(before_.states, key)) {
        add(at, key.first, key.second, state, 1);
      }
    }
    for (const auto& [key, state] : before_.states) {
      if (!state.empty() && !states.contains(key)) {
        add(at, key.first, key.second, "gone", 1);
      }
    }
  }
  before_.states = std::move(states);
}

Json Timeline::row(const Event& event) {
  // Ids sort as the events come.
  std::string id = std::to_string(event.number);
  id.insert(0, 12 - std::min<std::size_t>(12, id.size()), '0');
  return Json::object({{"id", id},
                       {"at", rfc3339_micro(event.at)},
                       {"kind", event.kind},
                       {"shard", event.shard},
                       {"reason", event.reason},
                       {"count", event.count}});
}

ViewRows Timeline::rows() const {
  ViewRows out;
  out.reserve(events_.size());
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    out.push_back(row(*event));
  }
  return out;
}

Json Timeline::last(std::string_view kind) const {
  const auto found = std::find_if(events_.rbegin(), events_.rend(),
                                  [kind](const Event& event) { return event.kind == kind; });
  return found == events_.rend() ? Json() : row(*found);
}

TimelineSample::States shard_states(const topology::Feed& feed) {
  const std::set<std::string> silent = silent_shards(feed.status(), {});
  TimelineSample::States states;
  for (const auto& shard : feed.index().shards()) {
    const std::string& name = shard->spec.name;
    states[{kShard, name}] = shard->up && !silent.contains(name) ? "up" : "away";
  }
  return states;
}

TimelineSample timeline_sample(const topology::Feed& feed, const std::vector<LoopReport>& loops,
                               const TopologyReport& topology) {
  TimelineSample out;
  out.states = shard_states(feed);
  for (const CertificateEnd& one : topology.certificates) {
    out.states[{"certificate", one.name + " (" + one.use + ")"}] =
        "until " + rfc3339_micro(one.at * 1'000'000).substr(0, 10);
  }
  if (topology.draining) {
    out.states[{"drain", ""}] = "the proxy is being stopped";
  }
  std::uint64_t generation = 0;
  for (const LoopReport& loop : loops) {
    for (const Eviction& one : kEvictions) {
      out.counts[{"eviction", "", one.reason}] += loop.merge.*one.count;
    }
    for (const auto& [key, count] : loop.merge.resyncs) {
      out.counts[{"resync", key.first, std::string(key.second)}] += count;
    }
    for (const auto& [reason, count] : loop.merge.expired) {
      out.counts[{"cursor", "", "expired: " + std::string(reason)}] += count;
    }
    generation = std::max<std::uint64_t>(generation, loop.slot_generation);
  }
  out.counts[{"cursor", "", "generation"}] = generation;
  for (const auto& shard : feed.index().shards()) {
    out.counts[{"move", shard->spec.name, "away"}] = feed.index().moved_away(shard->id);
  }
  for (const ReloadCount& one : topology.reloads) {
    out.counts[{"reload", "", one.key}] = one.taken;
    out.counts[{"reload", "", one.key + ": refused"}] = one.refused;
  }
  return out;
}

}  // namespace kintsugi::proxy
