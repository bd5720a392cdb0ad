#include "workers/eventing/model/readiness.h"

#include <algorithm>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

bool has_seen(const ReadinessFacts& facts, const SeenDecisions& seen) {
  const auto at = seen.find(facts.key);
  if (at == seen.end() || at->second.generation < facts.observed_generation) {
    return false;
  }
  return !at->second.digest ||  // the seed's rule is the generation alone
         std::find(facts.digests.begin(), facts.digests.end(), *at->second.digest) !=
             facts.digests.end();
}

void look_in(Readiness& out, Duration time) {
  out.look_again = std::min(out.look_again.value_or(time), time);
}

}  // namespace

std::string_view ready_reason_text(ReadyReason reason) noexcept {
  switch (reason) {
    case ReadyReason::kReady:
      return "Ready";
    case ReadyReason::kGenerationBehind:
      return "GenerationBehind";
    case ReadyReason::kSinks:
      return "PropagateSubscriberURI";
    case ReadyReason::kOffsets:
      return "InitializeOffset";
    case ReadyReason::kPartial:
      return "NotEnoughPods";
    case ReadyReason::kPodMissing:
      return "PodMissing";
    case ReadyReason::kPodNotSeen:
      return "PodNotSeen";
    case ReadyReason::kBindInProgress:
      return "BindInProgress";
  }
  return "";
}

Readiness judge_readiness(const ReadinessFacts& facts, const MissingPodTimes& times) {
  Readiness out;
  bool missing = false, legacy = false;
  std::size_t excused = 0;
  for (std::size_t i = 0; i < facts.pods.size(); ++i) {
    const PodSight& pod = facts.pods[i];
    if (pod.exists) {
      legacy = legacy || pod.seen == nullptr;
      out.bound += pod.seen != nullptr && has_seen(facts, *pod.seen) ? 1 : 0;
      continue;
    }
    if (pod.beyond || pod.missing_for >= times.reschedule) {
      out.reschedule.push_back(i);
    } else {
      look_in(out, times.reschedule - pod.missing_for);
    }
    if (facts.was_ready && pod.missing_for < times.keeps_ready) {
      ++excused;
      look_in(out, times.keeps_ready - pod.missing_for);
    } else {
      missing = true;
    }
  }
  out.message = std::to_string(out.bound) + " of " + std::to_string(facts.pods.size()) +
                " pods have the placement";
  const std::int64_t placed = sum_of_placements(facts.placements);
  if (facts.generation != facts.observed_generation) {
    out.reason = ReadyReason::kGenerationBehind;
    out.message = "generation " + std::to_string(facts.generation) + ", observed " +
                  std::to_string(facts.observed_generation);
  } else if (!facts.sinks_resolved) {
    out.reason = ReadyReason::kSinks;
  } else if (!facts.offsets_initialised) {
    out.reason = ReadyReason::kOffsets;
  } else if (placed != facts.wanted) {
    out.reason = ReadyReason::kPartial;
    out.message =
        std::to_string(placed) + " of " + std::to_string(facts.wanted) + " vreplicas are placed";
  } else if (missing) {
    out.reason = ReadyReason::kPodMissing;
  } else if (legacy) {
    out.reason = ReadyReason::kPodNotSeen;
  } else if (out.bound + excused < facts.pods.size()) {
    out.reason = ReadyReason::kBindInProgress;
  } else {
    out.ready = true;
    out.reason = ReadyReason::kReady;
  }
  return out;
}

}  // namespace kintsugi::workers
