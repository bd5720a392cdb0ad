#include "workers/messaging/control/counts.h"

#include <array>
#include <chrono>

#include "workers/messaging/control/internal/teller.h"

namespace kintsugi::workers {

namespace {

enum Family : std::size_t {
  kSpaces,
  kAddresses,
  kEntities,
  kPending,
  kRequests,
  kRepairs,
  kWrites,
  kUnknown,
  kSeconds,
  kSteps
};

/// As a histogram's series are: each bucket has those of the smaller ones.
void count_durations(Family family, std::vector<std::string> labels,
                     const DurationHistogram& durations, RoleSeries& out) {
  static const std::array<std::string, DurationHistogram::kBounds + 1> kBounds{
      "1e-08", "1e-07", "1e-06", "1e-05", "0.0001", "0.001", "0.01",
      "0.1",   "1",     "10",    "100",   "1000",   "+Inf"};
  std::uint64_t below = 0;
  labels.emplace_back();
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += durations.counts[i];
    labels.back() = kBounds[i];
    out[{family, labels}] += static_cast<double>(below);
  }
  labels.back() = "sum";
  out[{family, labels}] += std::chrono::duration<double>(durations.sum).count();
}

std::string_view kind_text(ComponentKind kind) {
  return kind == ComponentKind::kRouter ? "router" : "broker";
}

void count_component(const InfraComponent& one, RoleSeries& out) {
  const std::string kind(kind_text(one.kind));
  const ComponentPipeline& pipeline = *one.pipeline;
  for (std::size_t i = 0; i < kEntityKinds; ++i) {
    const auto type = static_cast<EntityKind>(i);
    if (const std::size_t count = pipeline.entities(type); count > 0) {
      out[{kEntities, {kind, std::string(entity_type_text(type))}}] += static_cast<double>(count);
    }
  }
  out[{kPending, {kind}}] += static_cast<double>(pipeline.pending());
  const ComponentPipeline::Counts& counts = pipeline.counts();
  for (const auto& [key, count] : counts.requests) {
    out[{kRequests, {kind, key.first, std::to_string(key.second)}}] += static_cast<double>(count);
  }
  for (const auto& [type, count] : counts.repairs) {
    out[{kRepairs, {one.where.host, std::string(entity_type_text(type))}}] +=
        static_cast<double>(count);
  }
  for (std::size_t i = 0; i < kPipelineSteps; ++i) {
    const DurationHistogram& durations = one.driver->durations()[i];
    count_durations(kSeconds, {}, durations, out);
    if (durations.count > 0) {
      const std::string step(pipeline_step_text(static_cast<PipelineStep>(i)));
      count_durations(kSteps, {kind, step}, durations, out);
    }
  }
  out[{kUnknown, {kind}}] += static_cast<double>(one.driver->link().unknown_answers());
  if (one.kind == ComponentKind::kBroker) {
    out[{kWrites, {"class"}}] += static_cast<double>(counts.class_writes);
    out[{kWrites, {"exact"}}] += static_cast<double>(counts.exact_writes);
  }
}

}  // namespace

std::vector<RoleFamily> messaging_families() {
  return {
      {"messaging_spaces", "spaces of infras of this process", false, {"state"}},
      {"messaging_addresses", "their addresses", false, {"type", "state"}},
      {"messaging_entities",
       "entities that components hold or are to hold",
       false,
       {"component_kind", "type"}},
      {"messaging_pending_entities", "of these, not as wanted", false, {"component_kind"}},
      {"messaging_mgmt_requests_total",
       "management requests; code 0: there was no answer",
       true,
       {"component_kind", "op", "code"}},
      {"messaging_drift_repairs_total",
       "entities that were found other than applied",
       true,
       {"component", "type"}},
      {"messaging_settings_writes_total",
       "writes of address settings: of a class, or of one queue alone",
       true,
       {"scope"}},
      {"messaging_mgmt_unknown_answers_total",
       "answers that belong to no request: too late, twice, or somebody else's",
       true,
       {"component_kind"}},
      {"messaging_mgmt_seconds",
       "management requests: until the answer or the deadline",
       false,
       {},
       true},
      {"pipeline_step_seconds",
       "steps of what is done at a component: from a request until its answer or its deadline",
       false,
       {"workflow", "step"},
       true},
  };
}

void count_messaging_placements(const Site& site, PlacementCounts& out) {
  out.moves[placing_reason_text(PlacingReason::kBrokerGone)] += site.decisions().moves;
  site.each_infra([&out](const OwnedInfra& infra) {
    infra.scheduler.each_waiting(
        [&out](PlacingReason reason) { ++out.pending[placing_reason_text(reason)]; });
  });
  const DurationHistogram& more = site.decisions().durations;
  for (std::size_t i = 0; i < more.counts.size(); ++i) {
    out.decisions.counts[i] += more.counts[i];
  }
  out.decisions.count += more.count;
  out.decisions.sum += more.sum;
}

void count_messaging(const Site& site, RoleSeries& out) {
  site.each_infra([&out](const OwnedInfra& infra) {
    for (const auto& [text, space] : infra.spaces) {
      out[{kSpaces, {space.made ? "Active" : "Configuring"}}] += 1;
    }
    for (const auto& [key, count] : infra.phases) {
      out[{kAddresses, {std::string(address_type_text(key.first)), std::string(key.second)}}] +=
          static_cast<double>(count);
    }
    for (const auto& one : infra.work->components()) {
      count_component(*one, out);
    }
  });
}

}  // namespace kintsugi::workers
