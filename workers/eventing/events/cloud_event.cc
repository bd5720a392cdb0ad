#include "workers/eventing/events/cloud_event.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kStructured = "application/cloudevents";
constexpr std::string_view kStructuredJson = "application/cloudevents+json";
constexpr std::string_view kContentType = "content-type", kDataContentType = "datacontenttype";
constexpr std::size_t kMaxErrorData = 1'024;

bool is_attribute_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

/// What of a name can stand in an attribute's.
std::string attribute_name(std::string_view text) {
  std::string out = to_lower(text);
  std::erase_if(out, [](char c) { return !is_attribute_name({&c, 1}); });
  return out;
}

bool is_plain_text(std::string_view text) {
  return is_valid_utf8(text) && text.find('\0') == std::string_view::npos;
}

/// As CloudEvents' binding for HTTP has it: blanks, quotes, percent and all that is not printable
/// ASCII as UTF-8 bytes in hex.
std::string to_header(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (c > ' ' && c < 0x7F && c != '"' && c != '%') {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4U]);
      out.push_back(kHex[byte & 15U]);
    }
  }
  return out;
}

bool is_json_type(std::string_view type) {
  const std::string plain = to_lower(type.substr(0, type.find(';')));
  return plain.empty() || plain.ends_with("/json") || plain.ends_with("+json");
}

/// A value of a content type is one only where HTTP can carry it.
bool is_header_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7F; });
}

std::optional<CloudEvent> parse_structured(std::string_view text) {
  const auto parsed = Json::parse(text);
  if (!parsed || !parsed->is_object()) {
    return std::nullopt;
  }
  CloudEvent out;
  const Json* data = nullptr;
  for (const krm::JsonMember& member : parsed->members()) {
    const Json& value = member.value;
    if (member.key == "data") {
      data = &value;
    } else if (member.key == "data_base64") {
      auto bytes = base64_decode(value.as_string());
      if (!bytes) {
        return std::nullopt;
      }
      out.data = std::move(*bytes);
    } else if (member.key == kDataContentType) {
      out.content_type = is_header_value(value.as_string()) ? value.as_string() : "";
    } else if (is_attribute_name(member.key) && !value.is_null() && !value.is_object() &&
               !value.is_array()) {
      std::string text = value.is_string() ? std::string(value.as_string()) : value.dump();
      if (is_plain_text(text)) {
        out.attributes[member.key] = std::move(text);
      }
    }
  }
  for (const char* const name : {"specversion", "id", "source", "type"}) {
    if (const std::string* const value = out.find(name); value == nullptr || value->empty()) {
      return std::nullopt;
    }
  }
  if (data != nullptr && !data->is_null()) {
    if (data->is_string() && !is_json_type(out.content_type)) {
      out.data = data->as_string();
    } else {
      out.data = data->dump();
      if (out.content_type.empty()) {
        out.content_type = "application/json";
      }
    }
  }
  return out;
}

template <class Integer>
Integer big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char c : bytes) {
    out = (out << 8U) | static_cast<unsigned char>(c);
  }
  return static_cast<Integer>(out);
}

std::string key_text(const std::string& key, KeyType type) {
  if (type == KeyType::kInteger && key.size() == 4) {
    return std::to_string(static_cast<std::int32_t>(big_endian<std::uint32_t>(key)));
  }
  if (type == KeyType::kInteger && key.size() == 8) {
    return std::to_string(big_endian<std::int64_t>(key));
  }
  if (type == KeyType::kDouble && (key.size() == 8 || key.size() == 4)) {
    return Json(key.size() == 8
                    ? std::bit_cast<double>(big_endian<std::uint64_t>(key))
                    : static_cast<double>(std::bit_cast<float>(big_endian<std::uint32_t>(key))))
        .dump();
  }
  return type == KeyType::kByteArray || !is_plain_text(key) ? base64_encode(key) : key;
}

CloudEvent wrapped(const KafkaRecord& record, const ContractResource& resource,
                   const Egress& egress, std::string_view content_type) {
  const Reference reference = resource.reference ? *resource.reference
                              : egress.reference ? *egress.reference
                                                 : Reference();
  const std::string partition = std::to_string(record.partition);
  const std::string offset = std::to_string(record.offset);
  CloudEvent out;
  out.attributes = {{"specversion", "1.0"},
                    {"type", "dev.knative.kafka.event"},
                    {"id", "partition:" + partition + "/offset:" + offset},
                    {"source", "/apis/v1/namespaces/" + reference.ns + "/kafkasources/" +
                                   reference.name + "#" + record.topic},
                    {"subject", "partition:" + partition + "#" + offset}};
  if (record.timestamp >= 0) {
    out.attributes["time"] = rfc3339_micro(record.timestamp * 1'000);
  }
  if (record.key) {
    out.attributes["key"] = key_text(*record.key, egress.key_type);
  }
  for (const auto& [name, value] : record.headers) {
    const std::string attribute = attribute_name(name);
    if (!attribute.empty() && value && is_plain_text(*value) && to_lower(name) != kContentType) {
      out.attributes["kafkaheader" + attribute] = *value;
    }
  }
  out.content_type = content_type;
  return out;
}

}  // namespace

const std::string* CloudEvent::find(const std::string& name) const {
  if (name == kDataContentType) {
    return content_type.empty() ? nullptr : &content_type;
  }
  const auto at = attributes.find(name);
  return at == attributes.end() ? nullptr : &at->second;
}

CloudEvent event_of(KafkaRecord record, const ContractResource& resource, const Egress& egress) {
  CloudEvent binary;
  for (const auto& [name, value] : record.headers) {
    const std::string lower = to_lower(name);
    if (!value || !is_plain_text(*value)) {
      continue;
    }
    if (lower == kContentType && is_header_value(*value)) {
      binary.content_type = *value;
    } else if (lower.starts_with("ce_") && is_attribute_name(lower.substr(3))) {
      binary.attributes[lower.substr(3)] = *value;
    }
  }
  std::optional<CloudEvent> out;
  const auto has = [&](const char* name) { return binary.attributes.contains(name); };
  if (has("specversion") && has("id") && has("source") && has("type")) {
    out = std::move(binary);
    out->attributes.erase(std::string(kDataContentType));
    out->data = std::move(record.value).value_or("");
  } else if (to_lower(binary.content_type).starts_with(kStructured) && record.value) {
    out = parse_structured(*record.value);
  }
  if (!out) {
    out = wrapped(record, resource, egress, binary.content_type);
    out->data = std::move(record.value).value_or("");
  }
  if (resource.cloud_event_overrides) {
    for (const auto& [name, value] : *resource.cloud_event_overrides) {
      if (is_attribute_name(name)) {
        out->attributes[name] = value;
      }
    }
  }
  return std::move(*out);
}

http::HeaderList request_headers(const CloudEvent& event) {
  http::HeaderList out;
  for (const auto& [name, value] : event.attributes) {
    out.add("ce-" + name, to_header(value));
  }
  if (!event.content_type.empty()) {
    out.add(kContentType, event.content_type);
  }
  if (event.data.empty()) {
    out.add("content-length", "0");
  }
  return out;
}

std::optional<CloudEvent> event_of_answer(const http::HeaderList& headers, std::string body) {
  CloudEvent out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto [name, value] = headers[i];
    const auto text = name.starts_with("ce-") ? percent_decode(value) : std::nullopt;
    if (text && is_attribute_name(name.substr(3)) && is_plain_text(*text)) {
      out.attributes[std::string(name.substr(3))] = *text;
    }
  }
  const std::string_view type = headers.get(kContentType);
  out.content_type = is_header_value(type) ? type : "";
  const auto has = [&](const char* name) { return out.attributes.contains(name); };
  if (has("specversion") && has("id") && has("source") && has("type")) {
    out.attributes.erase(std::string(kDataContentType));
    out.data = std::move(body);
    return out;
  }
  return to_lower(type).starts_with(kStructuredJson) ? parse_structured(body) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> record_headers(const CloudEvent& event) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, value] : event.attributes) {
    out.emplace_back("ce_" + name, value);
  }
  if (!event.content_type.empty()) {
    out.emplace_back(kContentType, event.content_type);
  }
  return out;
}

void add_failure(CloudEvent& event, std::string_view destination, int status,
                 std::string_view body) {
  event.attributes["knativeerrordest"] = destination;
  event.attributes["knativeerrorcode"] = std::to_string(status);
  if (!body.empty()) {
    event.attributes["knativeerrordata"] = base64_encode(body.substr(0, kMaxErrorData));
  }
}

}  // namespace kintsugi::workers
