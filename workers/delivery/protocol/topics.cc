#include "workers/delivery/protocol/topics.h"

#include <algorithm>

#include "base/strings.h"

namespace kintsugi::workers {

std::optional<DeliveryTopic> parse_delivery_topic(std::string_view topic,
                                                  const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (!topic.starts_with(prefix)) {
      continue;
    }
    const std::string_view rest = topic.substr(prefix.size());
    const std::size_t first = rest.find('/');
    const std::size_t second = first == std::string_view::npos ? first : rest.find('/', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const DeliveryTopic out{prefix, rest.substr(0, first),
                            rest.substr(first + 1, second - first - 1), rest.substr(second + 1)};
    if (is_topic_level(out.client) && is_topic_level(out.uid) &&
        (out.leaf == "content" || out.leaf == "status")) {
      return out;
    }
  }
  return std::nullopt;
}

std::string delivery_topic(std::string_view prefix, std::string_view client, std::string_view uid,
                           std::string_view leaf) {
  std::string out(prefix);
  out.append(client).append("/").append(uid).append("/").append(leaf);
  return out;
}

std::string content_filter(std::string_view prefix, std::string_view client) {
  return delivery_topic(prefix, client, "+", "content");
}

bool is_topic_level(std::string_view text) noexcept {
  return !text.empty() && is_valid_utf8(text) && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '/' && c != '+' && c != '#';
  });
}

bool is_topic_prefix(std::string_view text) noexcept {
  if (text.starts_with('/')) {
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos || !is_topic_level(text.substr(0, slash))) {
      return false;
    }
    text.remove_prefix(slash + 1);
  }
  return true;
}

bool is_reserved_uid(std::string_view uid) noexcept { return uid.starts_with('_'); }

}  // namespace kintsugi::workers
