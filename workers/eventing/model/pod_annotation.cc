#include "workers/eventing/model/pod_annotation.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kDigestDigits = 8;

bool is_seed_key(std::string_view key) noexcept {
  return key.size() > kSeenAnnotation.size() + 1 && key.starts_with(kSeenAnnotation) &&
         key[kSeenAnnotation.size()] == '.';
}

bool is_digest(std::string_view text) noexcept {
  return text.size() == kDigestDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string seen_key(std::string_view cluster, std::string_view ns, std::string_view name) {
  std::string key(cluster);
  key.append("|").append(ns).append("/").append(name);
  return key;
}

std::optional<SeenDecision> parse_seen(std::string_view value, bool of_seed) noexcept {
  const std::size_t dot = value.find('.');
  const auto generation = parse_decimal<std::int64_t>(value.substr(0, dot));
  if (!generation) {
    return std::nullopt;
  }
  if (dot == std::string_view::npos) {
    return of_seed ? std::optional(SeenDecision{*generation, std::nullopt}) : std::nullopt;
  }
  const std::string_view digest = value.substr(dot + 1);
  return is_digest(digest) ? std::optional(SeenDecision{*generation, std::string(digest)})
                           : std::nullopt;
}

SeenDecisions read_seen(const Json& annotations, std::string_view cluster) {
  SeenDecisions out;
  for (const auto& [key, value] : annotations.members()) {
    if (!is_seed_key(key)) {
      continue;
    }
    const std::string_view object = std::string_view(key).substr(kSeenAnnotation.size() + 1);
    const std::size_t slash = object.find('/');
    const auto seen = parse_seen(value.as_string(), true);
    if (seen && slash != 0 && slash != std::string_view::npos && slash + 1 < object.size()) {
      out[seen_key(cluster, object.substr(0, slash), object.substr(slash + 1))] = *seen;
    }
  }
  const Json* const text = annotations.find(kSeenAnnotation);
  if (text == nullptr) {
    return out;
  }
  const auto json = Json::parse(text->as_string());
  if (!json) {
    return out;
  }
  for (const auto& [key, value] : json->members()) {
    if (auto seen = parse_seen(value.as_string(), false)) {
      out[key] = std::move(*seen);
    }
  }
  return out;
}

std::string write_seen(const SeenDecisions& seen) {
  Json out = Json::object();
  for (const auto& [key, one] : seen) {
    out[key] = std::to_string(one.generation) + "." + one.digest.value_or(std::string());
  }
  return out.dump();
}

std::optional<Json> seen_patch(const Json& annotations, const SeenDecisions& seen,
                               std::int64_t volume_generation) {
  const std::string text = write_seen(seen), number = std::to_string(volume_generation);
  Json changes = Json::object();
  if (annotations.text({kSeenAnnotation}) != text) {
    changes[kSeenAnnotation] = text;
  }
  if (annotations.text({kVolumeGenerationAnnotation}) != number) {
    changes[kVolumeGenerationAnnotation] = number;
  }
  for (const auto& [key, value] : annotations.members()) {
    if (is_seed_key(key)) {
      changes[key] = nullptr;
    }
  }
  if (changes.size() == 0) {
    return std::nullopt;
  }
  return Json::object({{"metadata", Json::object({{"annotations", std::move(changes)}})}});
}

}  // namespace kintsugi::workers
