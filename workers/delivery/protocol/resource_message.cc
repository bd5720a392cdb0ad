#include "workers/delivery/protocol/resource_message.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "krm/names.h"
#include "krm/strict_time.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kMaxDepth = 256, kMaxId = 256, kMaxKind = 63, kShown = 128;
constexpr std::string_view kIdMember = "resourceGenerationID";
constexpr std::string_view kServerMetadata[] = {
    "uid",           "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "managedFields", "selfLink"};

bool has_nul(const Json& value) {
  if (value.is_string()) {
    return value.as_string().find('\0') != std::string_view::npos;
  }
  return std::any_of(value.items().begin(), value.items().end(), has_nul) ||
         std::any_of(value.members().begin(), value.members().end(), [](const auto& member) {
           return member.key.find('\0') != std::string::npos || has_nul(member.value);
         });
}

bool is_scalar(std::string_view raw) {
  return !raw.empty() && raw.front() != '{' && raw.front() != '[' && raw.size() <= kMaxId;
}

bool is_kind(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKind &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

/// "v1", "apps/v1".
bool is_api_version(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return krm::check_dns1123_label(text).empty();
  }
  return krm::check_dns1123_subdomain(text.substr(0, slash)).empty() &&
         krm::check_dns1123_label(text.substr(slash + 1)).empty();
}

/// A text member of an object: nullopt, it is something else. Null and absent are "".
std::optional<std::string> text_of(const Json& object, std::string_view name) {
  const Json* const value = object.find(name);
  if (value == nullptr || value->is_null()) {
    return std::string();
  }
  return value->is_string() ? std::optional(std::string(value->as_string())) : std::nullopt;
}

/// Reads the parts of `content` into `out`. @returns what is wrong, "": nothing
class ManifestReader {
 public:
  ManifestReader(const Json& content, std::string_view topic_uid, ResourceMessage& out)
      : content_(content), topic_uid_(topic_uid), out_(out) {}

  std::string read() {
    if (!content_.is_object()) {
      return "content must be an object, and is " + std::string(content_.type_name());
    }
    const Json* const meta = content_.find("metadata");
    if (meta == nullptr || !meta->is_object()) {
      return "content.metadata must be an object";
    }
    // The generation first: whatever else is wrong is an answer to it.
    std::string wrong = read_generation(*meta);
    for (const auto part : {&ManifestReader::read_deletion, &ManifestReader::read_uid,
                            &ManifestReader::read_type, &ManifestReader::read_name}) {
      if (wrong.empty() && !out_.bare) {
        wrong = (this->*part)(*meta);
      }
    }
    return wrong;
  }

 private:
  std::string read_generation(const Json& meta) {
    const Json* const value = meta.find("generation");
    if (value == nullptr || !value->is_integer() || value->as_integer() < 1) {
      return "content.metadata.generation must be an integer from 1 to 2^63-1";
    }
    out_.generation = value->as_integer();
    return {};
  }

  std::string read_type(const Json&) {
    const auto version = text_of(content_, "apiVersion"), kind = text_of(content_, "kind");
    if (!version || !is_api_version(*version)) {
      return "content.apiVersion must be a version, or a group and a version";
    }
    if (!kind || !is_kind(*kind)) {
      return "content.kind must be the name of a kind";
    }
    if (content_.find("items") != nullptr && kind->ends_with("List")) {
      return "content must be one object, and is a list";
    }
    out_.api_version = *version;
    out_.kind = *kind;
    return {};
  }

  std::string read_uid(const Json& meta) {
    const auto uid = text_of(meta, "uid");
    if (!uid || uid->empty() || uid->size() > kMaxDeliveryUid) {
      return "content.metadata.uid must be text of 1 to 128 bytes";
    }
    if (*uid != topic_uid_) {
      return "content.metadata.uid is not that of the topic";
    }
    out_.uid = *uid;
    out_.bare = out_.deleting && text_of(content_, "apiVersion") == "" &&
                text_of(content_, "kind") == "" && text_of(meta, "name") == "";
    return {};
  }

  std::string read_name(const Json& meta) {
    const auto name = text_of(meta, "name"), ns = text_of(meta, "namespace");
    if (meta.find("generateName") != nullptr) {
      return "content.metadata.generateName is not allowed";
    }
    if (!name || !krm::check_dns1123_subdomain(*name).empty()) {
      return "content.metadata.name must be a DNS name (RFC 1123)";
    }
    if (!ns || (!ns->empty() && !krm::check_dns1123_label(*ns).empty())) {
      return "content.metadata.namespace must be a DNS label (RFC 1123)";
    }
    out_.name = *name;
    out_.ns = *ns;
    return {};
  }

  std::string read_deletion(const Json& meta) {
    const auto text = text_of(meta, "deletionTimestamp");
    if (!text || (!text->empty() && !krm::parse_rfc3339(*text))) {
      return "content.metadata.deletionTimestamp must be a time (RFC 3339) or empty";
    }
    out_.deleting = !text->empty();
    return {};
  }

  const Json& content_;
  std::string_view topic_uid_;
  ResourceMessage& out_;
};

Json cleaned(Json content) {
  content.erase("status");
  if (Json* const meta = content.find("metadata"); meta != nullptr) {
    for (const std::string_view name : kServerMetadata) {
      meta->erase(name);
    }
  }
  return content;
}

/// Behind a JSON value, or a string, that begins at `at`; valid JSON.
std::size_t behind_string(std::string_view json, std::size_t at) noexcept {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    at += json[at] == '\\' ? 1 : 0;
  }
  return std::min(at + 1, json.size());
}

std::size_t behind_value(std::string_view json, std::size_t at) noexcept {
  std::size_t depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = behind_string(json, at);
      if (depth == 0) {
        return at;
      }
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) {
        return at;
      }
      if (--depth == 0) {
        return at + 1;
      }
    } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      return at;
    }
    ++at;
  }
  return at;
}

std::size_t behind_space(std::string_view json, std::size_t at) noexcept {
  const std::size_t next = json.find_first_not_of(" \t\r\n", at);
  return next == std::string_view::npos ? json.size() : next;
}

}  // namespace

std::string_view raw_member(std::string_view json, std::string_view name) noexcept {
  std::size_t at = behind_space(json, 0);
  if (at >= json.size() || json[at] != '{') {
    return {};
  }
  for (at = behind_space(json, at + 1); at < json.size() && json[at] == '"';) {
    const std::size_t end = behind_string(json, at);
    const std::string_view key = json.substr(at + 1, end - at - 2);
    at = behind_space(json, end);  // ':'
    const std::size_t value = behind_space(json, at + 1);
    const std::size_t behind = behind_value(json, std::min(value, json.size()));
    if (key == name) {
      return json.substr(value, behind - value);
    }
    at = behind_space(json, behind);  // ',' or '}'
    at = at < json.size() ? behind_space(json, at + 1) : at;
  }
  return {};
}

std::string_view refusal_reason(DeliveryRefusal refusal) noexcept {
  switch (refusal) {
    case DeliveryRefusal::kUnsupportedContentType:
      return "UnsupportedContentType";
    case DeliveryRefusal::kTooLarge:
      return "TooLarge";
    case DeliveryRefusal::kInvalidManifest:
      break;
  }
  return "InvalidManifest";
}

tl::expected<ResourceMessage, RefusedMessage> parse_resource_message(
    std::string_view content_type, std::string_view payload, std::string_view topic_uid,
    const ResourceMessageBounds& bounds) {
  RefusedMessage refused;
  const auto refuse = [&refused](std::string why) {
    refused.message = std::move(why);
    return tl::unexpected<RefusedMessage>(std::move(refused));
  };
  const auto codec = delivery_codec(content_type);
  if (!codec) {
    refused.refusal = DeliveryRefusal::kUnsupportedContentType;
    return refuse(content_type.empty() ? "the message has no content type"
                                       : "the content type is none of v1/json, v1/json+gzip");
  }
  Expected<std::string> json = unpack(*codec, payload, bounds.unpacked);
  if (!json) {
    return refuse(std::string(json.error().message()));
  }
  if (json->size() > bounds.manifest_bytes) {
    refused.refusal = DeliveryRefusal::kTooLarge;
    return refuse("the manifest has " + std::to_string(json->size()) + " bytes, more than " +
                  std::to_string(bounds.manifest_bytes));
  }
  Json::ParseOptions options;
  options.max_depth = kMaxDepth;
  options.collect_duplicates = true;
  Json::ParseReport report;
  Expected<Json> parsed = Json::parse(*json, options, &report);
  if (!parsed || !parsed->is_object()) {
    return refuse(parsed ? "the message must be a JSON object"
                         : "the message is not JSON: " +
                               std::string(parsed.error().message()).substr(0, kShown));
  }
  ResourceMessage out;
  const std::string_view id = raw_member(*json, kIdMember);
  out.id_missing = parsed->find(kIdMember) == nullptr;
  const bool id_good = out.id_missing || is_scalar(id);
  if (id_good && !out.id_missing) {
    refused.resource_generation_id = out.resource_generation_id = std::string(id);
  }
  std::string wrong;
  Json* const content = parsed->find("content");
  const Json none;
  wrong = ManifestReader(content == nullptr ? none : *content, topic_uid, out).read();
  refused.generation = out.generation;
  if (!report.duplicate_fields.empty()) {
    return refuse("a member is there twice: " + report.duplicate_fields.front().substr(0, kShown));
  }
  if (!id_good) {
    return refuse("resourceGenerationID must be a scalar of at most 256 bytes");
  }
  if (const Json* const sent = parsed->find("sentTimestamp");
      wrong.empty() && sent != nullptr && !sent->is_null() && !sent->is_integer()) {
    wrong = "sentTimestamp must be an integer";
  }
  if (!wrong.empty() || has_nul(*parsed)) {
    return refuse(wrong.empty() ? "a text has a NUL" : std::move(wrong));
  }
  out.manifest = cleaned(std::move(*content));
  return out;
}

std::string encode_resource_message(std::int64_t sent_timestamp,
                                    std::string_view resource_generation_id,
                                    const krm::Json& content) {
  std::string out =
      "{\"sentTimestamp\":" + std::to_string(sent_timestamp) + ",\"resourceGenerationID\":";
  out.append(resource_generation_id).append(",\"content\":");
  content.dump_to(out);
  out += '}';
  return out;
}

}  // namespace kintsugi::workers
