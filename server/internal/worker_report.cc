#include "server/internal/worker_report.h"

#include <algorithm>

namespace kintsugi::server {
namespace {

template <class Numbers>
void add_all(Numbers& to, const Numbers& more) {
  std::transform(to.begin(), to.end(), more.begin(), to.begin(),
                 [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

void add_to(workers::DurationHistogram& to, const workers::DurationHistogram& more) {
  add_all(to.counts, more.counts);
  to.count += more.count;
  to.sum += more.sum;
}

/// For the label `host`.
std::string authority_of(const std::string& url) {
  const auto parsed = net::Url::parse(url);
  return parsed ? parsed->host + ":" + std::to_string(parsed->port) : "unknown";
}

}  // namespace

void ControllerReport::add(const workers::Controller& controller, TimePoint now) {
  most += controller.most();
  running += controller.running();
  const workers::ControllerCounts& more = controller.counts();
  counts.success += more.success;
  counts.error += more.error;
  counts.requeue_after += more.requeue_after;
  counts.terminal += more.terminal;
  counts.panics += more.panics;
  counts.timeouts += more.timeouts;
  counts.not_ours += more.not_ours;
  add_all(counts.times, more.times);
  counts.seconds += more.seconds;
  const workers::KeyedQueue::Counts& queue = controller.queue().counts();
  add_all(depth, queue.depth);
  adds += queue.adds;
  retries += queue.retries;
  add_to(queued, queue.queue_duration);
  add_to(worked, queue.work_duration);
  const auto runs = controller.queue().unfinished(now);
  unfinished += runs.sum;
  longest = std::max(longest, runs.longest);
}

void ClientReport::add(const workers::ApiCounts& counts) {
  for (const auto& [key, count] : counts.requests) {
    requests[key] += count;
  }
  answers += counts.answers;
  withheld += counts.withheld;
  waited += counts.waited;
}

void WorkerReport::add(const workers::Worker& worker, TimePoint now) {
  role = worker.role();
  refused += worker.refused().size();
  duplicate_clusters += worker.duplicate_clusters();
  families = worker.families();
  for (const auto& [key, value] : worker.series()) {
    series[key] += value;
  }
  const workers::PlacementCounts placed = worker.placements();
  for (const auto& [reason, count] : placed.moves) {
    placements.moves[reason] += count;
  }
  for (const auto& [reason, count] : placed.pending) {
    placements.pending[reason] += count;
  }
  add_to(placements.decisions, placed.decisions);
  for (const workers::Unit* unit : worker.units()) {
    ++units;
    unit->each_controller([&](const workers::Controller& controller) {
      controllers[controller.name()].add(controller, now);
    });
    clients[authority_of(unit->params().url)].add(unit->client().counts());
    clients[authority_of(unit->params().url)].add(unit->home_client().counts());
    unit->reflectors().each([&](const workers::Reflector& reflector) {
      ReflectorReport& of = reflectors[resource_of(reflector.spec().target)];
      const auto& counters = reflector.machine().counters();
      of.objects += reflector.cache().size();
      of.guarded += counters.guarded;
      add_all(of.relists, counters.relists);
    });
    if (const workers::JournalKeeper* journal = unit->journal(); journal != nullptr) {
      journal_bytes += journal->stats().bytes;
      journal_commits += journal->stats().commits;
      journal_rebuilds += journal->stats().rebuilds;
    }
    if (const workers::RingDriver* ring = unit->ring(); ring != nullptr) {
      partitions += ring->node().member().held();
      generation = std::max(generation, ring->node().member().generation());
      add_to(handovers, ring->node().member().handovers());
      coordinates = coordinates || ring->node().coordinator_lease().holder();
    }
  }
}

std::string resource_of(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace kintsugi::server
