#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kintsugi::workers {

/// What a consumer group is for.
enum class GroupKind : std::uint8_t { kTrigger, kKafkaSource, kSubscription };

struct GroupIdDemand {
  GroupKind kind = GroupKind::kTrigger;
  std::string_view ns, name, uid;  ///< of the Trigger, the KafkaSource, the Subscription
  std::string_view channel;        ///< kSubscription: the channel's name
  std::string_view asked;          ///< kKafkaSource: spec.consumerGroup
  std::string_view stored;         ///< what its status says; "": nothing yet
};

struct GroupId {
  std::string id;
  bool store = false;     ///< the status says another one, or none
  bool collided = false;  ///< somebody else has the one that it would have: an event
};

/// Where the id is kept: status.annotations of a Trigger.
inline constexpr std::string_view kGroupIdAnnotation = "group.id";
/// What a ConsumerGroup takes [bytes].
inline constexpr std::size_t kMostGroupId = 255;

/// Of whom Kafka's group is: `knative-trigger-<ns>-<name>`, the source's own wish or
/// `knative-kafka-source-<uid>`, `kafka.<ns>.<channel>.<uid>`. A stored id is never changed, unless
/// an older object has the same one, as may be in another workspace (KN-T063) or for another
/// division of the same letters (`a-b`, `c` and `a`, `b-c`): then it gets "-<uid>" behind it. So
/// does one that is too long, and is cut for it.
/// @param taken  whether an older object has that id in the same Kafka
[[nodiscard]] GroupId choose_group_id(const GroupIdDemand& demand,
                                      const std::function<bool(std::string_view)>& taken);

}  // namespace kintsugi::workers
