#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::workers {

/// A topic below which a hub orders ("content") or an agent answers ("status"), taken apart.
/// Lifetime: views into the topic.
struct DeliveryTopic {
  std::string_view prefix;  ///< of the list that was asked for
  std::string_view client, uid;
  std::string_view leaf;  ///< "content" or "status"
};

/// Longest uid that a manifest may have [bytes].
inline constexpr std::size_t kMaxDeliveryUid = 128;

/// `<prefix><client>/<uid>/<leaf>`. Of several prefixes the first that fits. nullopt: another
/// topic, or one with an empty level.
[[nodiscard]] std::optional<DeliveryTopic> parse_delivery_topic(
    std::string_view topic, const std::vector<std::string>& prefixes);
[[nodiscard]] std::string delivery_topic(std::string_view prefix, std::string_view client,
                                         std::string_view uid, std::string_view leaf);
/// What an agent subscribes to: "<prefix><client>/+/content".
[[nodiscard]] std::string content_filter(std::string_view prefix, std::string_view client);

/// One level of a topic: not empty, UTF-8 without control characters, none of `/ + #`.
[[nodiscard]] bool is_topic_level(std::string_view text) noexcept;
/// "" or levels with a '/' behind each ("v1/", "/v1/").
[[nodiscard]] bool is_topic_prefix(std::string_view text) noexcept;
/// Levels that begin with '_' are no uids.
[[nodiscard]] bool is_reserved_uid(std::string_view uid) noexcept;

}  // namespace kintsugi::workers
