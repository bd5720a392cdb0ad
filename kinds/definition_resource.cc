#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"
#include "cel/rules.h"
#include "kinds/builtin_kinds.h"
#include "kinds/common.h"
#include "krm/structural.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

/// Order of preference: v10, v2, v1, v2beta1, v1beta2, v1alpha1, then other names by letter.
struct VersionRank {
  int stability = 0;  ///< 3 stable, 2 beta, 1 alpha, 0 no version number
  std::uint64_t major = 0, minor = 0;
};

VersionRank rank_of(std::string_view name) {
  VersionRank out;
  if (name.empty() || name.front() != 'v') {
    return out;
  }
  const std::size_t letters = name.find_first_not_of("0123456789", 1);
  const auto major = parse_decimal(
      name.substr(1, letters == std::string_view::npos ? std::string_view::npos : letters - 1));
  if (!major) {
    return out;
  }
  if (letters == std::string_view::npos) {
    return {3, *major, 0};
  }
  std::string_view rest = name.substr(letters);
  for (const auto& [word, stability] : {std::pair<std::string_view, int>{"beta", 2},
                                        std::pair<std::string_view, int>{"alpha", 1}}) {
    if (rest.starts_with(word)) {
      if (const auto minor = parse_decimal(rest.substr(word.size()))) {
        return {stability, *major, *minor};
      }
    }
  }
  return out;
}

bool is_preferred(std::string_view a, std::string_view b) {
  const VersionRank left = rank_of(a);
  const VersionRank right = rank_of(b);
  if (left.stability == 0 && right.stability == 0) {
    return a < b;
  }
  return std::tie(left.stability, left.major, left.minor) >
         std::tie(right.stability, right.major, right.minor);
}

bool flag(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  return member != nullptr && member->as_bool();
}

std::vector<std::string> texts(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* list = object.find(key)) {
    for (const Json& each : list->items()) {
      out.emplace_back(each.as_string());
    }
  }
  return out;
}

/// Never 0, which stands for none.
std::uint64_t digest_of(const Json& schema) {
  const auto bytes = sha256(schema.dump());
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    digest = digest << 8 | bytes[i];
  }
  return digest == 0 ? 1 : digest;
}

/// Null for the strategy None.
std::shared_ptr<const apiserver::ConversionWebhook> read_webhook(const Json& spec) {
  if (spec.text({"conversion", "strategy"}) != "Webhook") {
    return nullptr;
  }
  auto out = std::make_shared<apiserver::ConversionWebhook>();
  const Json* webhook = spec.at({"conversion", "webhook"});
  if (webhook == nullptr) {
    return out;
  }
  out->url = webhook->text({"clientConfig", "url"});
  if (const Json* service = webhook->at({"clientConfig", "service"})) {
    out->service =
        std::string(service->text({"namespace"})) + "/" + std::string(service->text({"name"}));
  }
  out->ca_bundle = base64_decode(webhook->text({"clientConfig", "caBundle"})).value_or("");
  out->review_versions = texts(*webhook, "conversionReviewVersions");
  return out;
}

bool is_terminating(const Json& crd) {
  const Json* conditions = crd.at({"status", "conditions"});
  return conditions != nullptr && std::any_of(conditions->items().begin(),
                                              conditions->items().end(), [](const Json& condition) {
                                                return condition.text({"type"}) == "Terminating" &&
                                                       condition.text({"status"}) == "True";
                                              });
}

apiserver::Column read_column(const Json& json) {
  apiserver::Column out;
  out.name = json.text({"name"});
  out.type = json.text({"type"});
  out.format = json.text({"format"});
  out.json_path = json.text({"jsonPath"});
  out.description = json.text({"description"});
  if (out.description.empty()) {
    out.description = "Custom resource definition column (in JSONPath format): " + out.json_path;
  }
  if (const Json* priority = json.find("priority")) {
    out.priority = static_cast<int>(priority->as_integer());
  }
  return out;
}

apiserver::Column default_age_column() {
  apiserver::Column out = age_column();
  out.type = "date";
  out.cell = nullptr;
  out.json_path = ".metadata.creationTimestamp";
  return out;
}

apiserver::ResourceVersion read_version(const Json& json) {
  apiserver::ResourceVersion out;
  out.name = json.text({"name"});
  out.served = flag(json, "served");
  out.storage = flag(json, "storage");
  out.deprecated = flag(json, "deprecated");
  out.deprecation_warning = json.text({"deprecationWarning"});
  if (const Json* schema = json.at({"schema", "openAPIV3Schema"});
      schema != nullptr && schema->is_object()) {
    out.schema = krm::structural_schema(*schema, true);
    out.schema_digest = digest_of(*schema);
    out.rules = cel::compile_rules(*schema);
  }
  if (const Json* columns = json.find("additionalPrinterColumns")) {
    for (const Json& column : columns->items()) {
      out.columns.push_back(read_column(column));
    }
  }
  if (out.columns.empty()) {
    out.columns.push_back(default_age_column());
  }
  if (const Json* status = json.at({"subresources", "status"})) {
    out.status = status->is_object();
  }
  out.scale.spec_replicas = json.text({"subresources", "scale", "specReplicasPath"});
  out.scale.status_replicas = json.text({"subresources", "scale", "statusReplicasPath"});
  out.scale.label_selector = json.text({"subresources", "scale", "labelSelectorPath"});
  if (const Json* fields = json.find("selectableFields")) {
    for (const Json& each : fields->items()) {
      out.selectable_fields.emplace_back(each.text({"jsonPath"}));
    }
  }
  return out;
}

void fill_warnings(apiserver::ResourceDef& def) {
  const apiserver::ResourceVersion* newest = nullptr;
  for (const apiserver::ResourceVersion& version : def.versions) {
    if (version.served && !version.deprecated) {
      newest = &version;
      break;
    }
  }
  for (apiserver::ResourceVersion& version : def.versions) {
    if (!version.deprecated || !version.deprecation_warning.empty()) {
      continue;
    }
    version.deprecation_warning = def.api_version(version.name) + " " + def.kind + " is deprecated";
    if (newest != nullptr && is_preferred(newest->name, version.name)) {
      version.deprecation_warning += "; use " + def.api_version(newest->name) + " " + def.kind;
    }
  }
}

}  // namespace

apiserver::ResourcePtr resource_from_crd(const Json& crd) {
  const Json* spec = crd.find("spec");
  if (spec == nullptr) {
    return nullptr;
  }
  const Json* accepted = crd.at({"status", "acceptedNames"});
  const Json* names = spec->find("names");
  if (accepted != nullptr && !accepted->text({"plural"}).empty()) {
    names = accepted;
  }
  const Json* versions = spec->find("versions");
  if (names == nullptr || versions == nullptr) {
    return nullptr;
  }
  apiserver::ResourceDef def;
  def.group = spec->text({"group"});
  def.plural = names->text({"plural"});
  def.kind = names->text({"kind"});
  def.singular = names->text({"singular"});
  if (def.singular.empty()) {
    def.singular = to_lower(def.kind);
  }
  def.list_kind = names->text({"listKind"});
  if (def.list_kind.empty()) {
    def.list_kind = def.kind + "List";
  }
  def.short_names = texts(*names, "shortNames");
  def.categories = texts(*names, "categories");
  def.namespaced = spec->text({"scope"}) != "Cluster";
  def.generation = true;
  def.terminating = is_terminating(crd);
  def.webhook = read_webhook(*spec);
  bool stored = false;
  for (const Json& each : versions->items()) {
    def.versions.push_back(read_version(each));
    stored = stored || def.versions.back().storage;
  }
  if (def.group.empty() || def.plural.empty() || def.kind.empty() || !stored) {
    return nullptr;
  }
  std::stable_sort(def.versions.begin(), def.versions.end(),
                   [](const apiserver::ResourceVersion& a, const apiserver::ResourceVersion& b) {
                     return is_preferred(a.name, b.name);
                   });
  fill_warnings(def);
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace kintsugi::kinds
