#include "apiserver/internal/media.h"

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kYamlType = "application/yaml";
constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";

std::string unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

/// True when the `as` parameter asks for something we do not make of this offer.
bool read_transform(const AcceptClause& clause, const Offer& offer, Form& form) {
  const std::string_view as = clause.parameter("as");
  if (as.empty()) {
    return true;
  }
  const std::string_view version = clause.parameter("v");
  if (!offer.transforms || clause.parameter("g") != "meta.k8s.io" ||
      (version != "v1" && version != "v1beta1")) {
    return false;
  }
  form.beta = version == "v1beta1";
  if (as == "Table" && form.format != Format::kProtobuf) {
    form.shape = Shape::kTable;
  } else if (as == "PartialObjectMetadata") {
    form.shape = Shape::kPartial;
  } else if (as == "PartialObjectMetadataList") {
    form.shape = Shape::kPartialList;
  } else {
    return false;
  }
  return true;
}

std::optional<Format> match(const AcceptClause& clause, const Offer& offer) {
  const std::string_view type = clause.type;
  if (type == "*/*" || type == kJsonType) {
    return Format::kJson;
  }
  if (type == kYamlType && offer.yaml) {
    return Format::kYaml;
  }
  // Metadata alone is a builtin type, whatever the object is.
  const bool metadata =
      offer.transforms && clause.parameter("as").starts_with("PartialObjectMetadata");
  if (type == kProtobufType && (offer.protobuf || metadata)) {
    return Format::kProtobuf;
  }
  return std::nullopt;
}

}  // namespace

std::string_view AcceptClause::parameter(std::string_view name) const noexcept {
  for (const auto& [key, value] : parameters) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

std::vector<AcceptClause> parse_accept(std::string_view header) {
  struct Weighted {
    double weight;
    AcceptClause clause;
  };
  std::vector<Weighted> found;
  for (const std::string_view text : split(header, ',')) {
    const std::vector<std::string_view> parts = split(text, ';');
    Weighted item{1.0, {to_lower(trim(parts.front())), {}}};
    if (item.clause.type.empty()) {
      continue;
    }
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::string_view part = trim(parts[i]);
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) {
        continue;
      }
      const std::string key = to_lower(trim(part.substr(0, equals)));
      std::string value = unquote(trim(part.substr(equals + 1)));
      if (key == "q") {
        item.weight = std::strtod(value.c_str(), nullptr);
      } else {
        item.clause.parameters.emplace_back(key, std::move(value));
      }
    }
    if (item.weight > 0) {
      found.push_back(std::move(item));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Weighted& a, const Weighted& b) { return a.weight > b.weight; });
  std::vector<AcceptClause> clauses;
  clauses.reserve(found.size());
  for (Weighted& item : found) {
    clauses.push_back(std::move(item.clause));
  }
  if (trim(header).empty()) {
    clauses.push_back({"*/*", {}});
  }
  return clauses;
}

std::optional<Form> negotiate(const std::vector<AcceptClause>& accept, const Offer& offer) {
  for (const AcceptClause& clause : accept) {
    const std::optional<Format> format = match(clause, offer);
    if (!format) {
      continue;
    }
    Form form;
    form.format = *format;
    if (read_transform(clause, offer, form)) {
      return form;
    }
  }
  return std::nullopt;
}

Format error_format(const std::vector<AcceptClause>& accept) noexcept {
  for (const AcceptClause& clause : accept) {
    if (const std::optional<Format> format = match(clause, Offer{true, true, true})) {
      return *format;
    }
  }
  return Format::kJson;
}

bool wants_pretty(std::optional<std::string_view> query_value,
                  const std::vector<AcceptClause>& accept, std::string_view user_agent) {
  const auto is_true = [](std::string_view text) {
    return text == "1" || text == "t" || text == "T" || text == "true" || text == "TRUE" ||
           text == "True";
  };
  if (query_value && !query_value->empty()) {
    return is_true(*query_value);
  }
  for (const AcceptClause& clause : accept) {
    if (is_true(clause.parameter("pretty"))) {
      return true;
    }
  }
  return user_agent.starts_with("curl") || user_agent.starts_with("Wget") ||
         user_agent.starts_with("Mozilla/5.0");
}

BodyType body_type(std::string_view header, bool default_json) {
  const std::string type = to_lower(trim(split(header, ';').front()));
  if (type.empty()) {
    return default_json ? BodyType::kJson : BodyType::kOther;
  }
  if (type == kJsonType) {
    return BodyType::kJson;
  }
  if (type == kYamlType) {
    return BodyType::kYaml;
  }
  if (type == kProtobufType) {
    return BodyType::kProtobuf;
  }
  if (type == "application/json-patch+json") {
    return BodyType::kJsonPatch;
  }
  if (type == "application/merge-patch+json") {
    return BodyType::kMergePatch;
  }
  if (type == "application/strategic-merge-patch+json") {
    return BodyType::kStrategicPatch;
  }
  if (type == "application/apply-patch+yaml") {
    return BodyType::kApplyPatch;
  }
  return BodyType::kOther;
}

bool names_known_type(const std::vector<AcceptClause>& accept) noexcept {
  return std::any_of(accept.begin(), accept.end(), [](const AcceptClause& clause) {
    return clause.type == "*/*" || clause.type == kJsonType || clause.type == kYamlType ||
           clause.type == kProtobufType;
  });
}

std::string_view content_type(Format format) noexcept {
  switch (format) {
    case Format::kJson:
      return kJsonType;
    case Format::kYaml:
      return kYamlType;
    case Format::kProtobuf:
      return kProtobufType;
  }
  return kJsonType;
}

}  // namespace kintsugi::apiserver::internal
