#include "workers/eventing/model/replicas.h"

#include <algorithm>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

constexpr std::int64_t kMostReplicas = 2147483647;

ReplicasWish judged(std::optional<std::int64_t> value, std::string_view key,
                    const krm::Json& annotations) {
  ReplicasWish wish;
  wish.unbounded = annotations.text({kReplicasPolicyAnnotation}) == kUnboundedPolicy;
  if (!value || *value < 0 || *value > kMostReplicas) {
    wish.invalid = std::string(key) + ": is no number of 0 to 2147483647";
  } else if (wish.unbounded && *value > kMostUnboundedReplicas) {
    wish.invalid = std::string(key) + ": " + std::to_string(*value) + " is more than " +
                   std::to_string(kMostUnboundedReplicas) + ", the most without a bound by " +
                   "partitions";
  } else {
    wish.requested = *value;
  }
  return wish;
}

}  // namespace

ReplicasWish read_replicas_annotation(const krm::Json& annotations) {
  const krm::Json* const value = annotations.find(kReplicasAnnotation);
  return judged(value == nullptr ? 1 : parse_decimal<std::int64_t>(value->as_string()),
                kReplicasAnnotation, annotations);
}

ReplicasWish read_replicas_field(const krm::Json* value, std::string_view field,
                                 const krm::Json& annotations) {
  std::optional<std::int64_t> number = 1;
  if (value != nullptr && !value->is_null()) {
    number = value->is_integer() ? std::optional(value->as_integer()) : std::nullopt;
  }
  return judged(number, field, annotations);
}

std::optional<EffectiveReplicas> effective_replicas(
    const ReplicasWish& wish, std::optional<std::int64_t> partitions) noexcept {
  if (wish.unbounded) {
    return EffectiveReplicas{wish.requested, std::nullopt, false};
  }
  if (!partitions) {
    return std::nullopt;
  }
  const std::int64_t most = std::clamp<std::int64_t>(*partitions, 0, kMostReplicas);
  return EffectiveReplicas{std::min(wish.requested, most), most, wish.requested > most};
}

}  // namespace kintsugi::workers
