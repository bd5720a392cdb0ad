#include "controlplane/kinds/internal/apis_conversion.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "controlplane/kinds/internal/member_order.h"
#include "krm/annotations.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// "v1.widgets.ex.io" -> group "ex.io", name "widgets"; the group "core" is "".
void split_schema_name(std::string_view schema, std::string& group, std::string& name) {
  const std::size_t first = schema.find('.');
  if (first == std::string_view::npos) {
    return;
  }
  const std::size_t second = schema.find('.', first + 1);
  name = schema.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
  group = second == std::string_view::npos ? "" : schema.substr(second + 1);
  if (group == "core") {
    group.clear();
  }
}

bool same_claim(const Json& a, const Json& b) {
  return a.text({"group"}) == b.text({"group"}) && a.text({"resource"}) == b.text({"resource"}) &&
         a.text({"identityHash"}) == b.text({"identityHash"});
}

const Json* find_claim(const Json& list, const Json& claim) {
  for (const Json& one : list.items()) {
    if (same_claim(one, claim)) {
      return &one;
    }
  }
  return nullptr;
}

void erase_annotation(Json& object, std::string_view key) {
  if (Json* annotations = object.at({"metadata", "annotations"})) {
    annotations->erase(key);
    if (annotations->size() == 0) {
      object["metadata"].erase("annotations");
    }
  }
}

/// The list that an annotation holds; no array when there is none.
Json list_of_annotation(const Json& object, std::string_view key) {
  Expected<Json> list = Json::parse(object.text({"metadata", "annotations", key}), {64, false});
  return list && list->is_array() ? std::move(*list) : Json();
}

/// The same, taken out of the object.
Json take_annotation(Json& object, std::string_view key) {
  Json list = list_of_annotation(object, key);
  erase_annotation(object, key);
  return list;
}

/// The same if `fits`: what nobody can read or use stays, and is what admission refuses (KK-147).
template <typename Fits>
Json take_usable(Json& object, std::string_view key, const Fits& fits) {
  Json list = list_of_annotation(object, key);
  if (!list.is_array() || !std::all_of(list.items().begin(), list.items().end(), fits)) {
    return {};
  }
  erase_annotation(object, key);
  return list;
}

Json take_claims(Json& object, std::string_view key) {
  const Json* claims = object.at({"spec", "permissionClaims"});
  return take_usable(object, key, [claims](const Json& claim) {
    return claims != nullptr && claims->is_array() && find_claim(*claims, claim) != nullptr;
  });
}

std::string selector_text(const Json& selector) {
  return in_order(selector, {"matchLabels", "matchExpressions", "matchAll"});
}

/// A claim of either version; what is empty is left out.
std::string claim_text(const Json& claim) {
  Json shown = claim;
  for (const char* member : {"group", "identityHash"}) {
    if (shown.text({member}).empty()) {
      shown.erase(member);
    }
  }
  return in_order(shown,
                  {"group", "resource", "all", "resourceSelector", "verbs", "identityHash",
                   "defaultSelector", "selector", "state"},
                  [](std::string_view key, const Json& value) {
                    return key == "selector" || key == "defaultSelector" ? selector_text(value)
                                                                         : value.dump();
                  });
}

std::string resource_text(const Json& resource) {
  const auto storage = [](std::string_view, const Json& value) {
    return in_order(value, {"reference", "identityHash"});
  };
  return in_order(
      resource, {"name", "group", "schema", "storage"},
      [&storage](std::string_view key, const Json& value) {
        return key == "storage" ? in_order(value, {"crd", "virtual"}, storage) : value.dump();
      });
}

void put_annotation(Json& object, std::string_view key, const Json& list) {
  if (list.size() > 0) {
    object.make({"metadata", "annotations", key}) =
        list_of(list, key == krm::kSchemasV1alpha2Annotation ? resource_text : claim_text);
  }
}

bool is_true(const Json* value) { return value != nullptr && value->as_bool(); }

bool is_all_verbs(const Json& claim) {
  const Json* verbs = claim.find("verbs");
  return verbs != nullptr && verbs->size() == 1 && verbs->items().front().as_string() == "*";
}

/// Group, resource and identity as v1alpha1 shows them: nothing that is empty.
Json old_claim(const Json& claim) {
  Json out = Json::object({{"resource", claim.text({"resource"})}});
  for (const char* member : {"group", "identityHash"}) {
    if (const std::string_view value = claim.text({member}); !value.empty()) {
      out[member] = value;
    }
  }
  return out;
}

/// And as v1alpha2 has them: always there.
Json new_claim(const Json& claim) {
  return Json::object({{"group", claim.text({"group"})},
                       {"identityHash", claim.text({"identityHash"})},
                       {"resource", claim.text({"resource"})}});
}

/// What clients wrote in v1alpha1 and v1alpha2 does not know.
void restore_old_members(Json& claim, const Json& kept) {
  const Json* before = find_claim(kept, claim);
  if (before == nullptr) {
    return;
  }
  claim.erase("all");
  if (is_true(before->find("all"))) {
    claim["all"] = true;
  }
  if (const Json* selector = before->find("resourceSelector")) {
    claim["resourceSelector"] = *selector;
  }
}

Json without_empty(const Json& claim) {
  Json out = old_claim(claim);
  if (is_true(claim.find("all"))) {
    out["all"] = true;
  }
  for (const char* member : {"resourceSelector", "state"}) {
    if (const Json* value = claim.find(member); value != nullptr && value->size() > 0) {
      out[member] = *value;
    }
  }
  return out;
}

Json* list_in(Json& object, std::string_view part, std::string_view member) {
  Json* list = object.at({part, member});
  return list != nullptr && list->is_array() ? list : nullptr;
}

bool all_selected(const Json& claim) { return is_true(claim.at({"selector", "matchAll"})); }

bool has_old_members(const Json& claim) {
  const Json* selector = claim.find("resourceSelector");
  return is_true(claim.find("all")) || (selector != nullptr && selector->size() > 0);
}

/// Claims in the status of an APIBinding, and where is kept what one version does not know.
struct StatusClaims {
  std::string_view member, new_annotation, old_annotation;
  bool scoped;  ///< v1alpha2 says with a selector which objects
};
constexpr StatusClaims kStatusClaims[] = {
    {"exportPermissionClaims", krm::kStatusExportClaimsAnnotation,
     krm::kStatusExportClaimsV1alpha1Annotation, false},
    {"appliedPermissionClaims", krm::kStatusAppliedClaimsAnnotation,
     krm::kStatusAppliedClaimsV1alpha1Annotation, true}};

void status_from_storage(Json& object, const StatusClaims& of) {
  const Json kept = take_annotation(object, of.old_annotation);
  Json* claims = list_in(object, "status", of.member);
  if (claims == nullptr) {
    return;
  }
  Json others = Json::array();
  for (Json& claim : claims->edit_items()) {
    if (!is_all_verbs(claim) || claim.find("defaultSelector") != nullptr ||
        (of.scoped && !all_selected(claim))) {
      others.push_back(claim);
    }
    Json old = old_claim(claim);
    if (all_selected(claim)) {
      old["all"] = true;
    }
    restore_old_members(old, kept);
    claim = std::move(old);
  }
  put_annotation(object, of.new_annotation, others);
}

void status_to_storage(Json& object, const StatusClaims& of) {
  const Json full =
      take_usable(object, of.new_annotation, [](const Json& claim) { return claim.is_object(); });
  Json* claims = list_in(object, "status", of.member);
  if (claims == nullptr) {
    return;
  }
  Json kept = Json::array();
  for (Json& claim : claims->edit_items()) {
    if (has_old_members(claim)) {
      kept.push_back(without_empty(claim));
    }
    Json made = new_claim(claim);
    const Json* known = find_claim(full, claim);
    const Json* verbs = known == nullptr ? nullptr : known->find("verbs");
    made["verbs"] = verbs != nullptr && verbs->size() > 0 ? *verbs : Json::array({"*"});
    if (const Json* selector = known == nullptr ? nullptr : known->find("defaultSelector")) {
      made["defaultSelector"] = *selector;
    }
    if (of.scoped) {
      const Json* selector = known == nullptr ? nullptr : known->find("selector");
      made["selector"] = selector == nullptr ? Json::object({{"matchAll", true}}) : *selector;
    }
    claim = std::move(made);
  }
  put_annotation(object, of.old_annotation, kept);
}

}  // namespace

void export_from_storage(Json& object) {
  const Json kept = take_annotation(object, krm::kClaimsV1alpha1Annotation);
  if (const Json* resources = list_in(object, "spec", "resources")) {
    Json names = Json::array();
    Json others = Json::array();
    for (const Json& resource : resources->items()) {
      if (resource.at({"storage", "crd"}) != nullptr) {
        names.push_back(resource.text({"schema"}));
      } else {
        others.push_back(resource);
      }
    }
    object["spec"].erase("resources");
    if (names.size() > 0) {
      object["spec"]["latestResourceSchemas"] = std::move(names);
    }
    put_annotation(object, krm::kSchemasV1alpha2Annotation, others);
  }
  if (const Json* claims = list_in(object, "spec", "permissionClaims")) {
    Json out = Json::array();
    Json others = Json::array();
    for (const Json& claim : claims->items()) {
      if (!is_all_verbs(claim) || claim.find("defaultSelector") != nullptr) {
        others.push_back(claim);
      }
      Json old = old_claim(claim);
      restore_old_members(old, kept);
      out.push_back(std::move(old));
    }
    put_annotation(object, krm::kClaimsV1alpha2Annotation, others);
    object["spec"]["permissionClaims"] = std::move(out);
  }
}

void export_to_storage(Json& object) {
  const Json* named = list_in(object, "spec", "latestResourceSchemas");
  const Json resources =
      take_usable(object, krm::kSchemasV1alpha2Annotation, [named](const Json& resource) {
        return resource.is_object() &&
               (named == nullptr ||
                std::none_of(named->items().begin(), named->items().end(), [&](const Json& name) {
                  return name.as_string() == resource.text({"schema"});
                }));
      });
  const Json claims = take_claims(object, krm::kClaimsV1alpha2Annotation);
  if (const Json* names = list_in(object, "spec", "latestResourceSchemas")) {
    Json out = Json::array();
    for (const Json& schema : names->items()) {
      std::string group;
      std::string name;
      split_schema_name(schema.as_string(), group, name);
      out.push_back(Json::object({{"group", group},
                                  {"name", name},
                                  {"schema", schema},
                                  {"storage", Json::object({{"crd", Json::object()}})}}));
    }
    object["spec"]["resources"] = std::move(out);
    object["spec"].erase("latestResourceSchemas");
  }
  for (const Json& resource : resources.items()) {
    object.make({"spec", "resources"}).push_back(resource);
  }
  if (const Json* list = list_in(object, "spec", "permissionClaims")) {
    Json out = Json::array();
    Json kept = Json::array();
    for (const Json& claim : list->items()) {
      kept.push_back(without_empty(claim));
      Json made = new_claim(claim);
      const Json* full = find_claim(claims, claim);
      const Json* verbs = full == nullptr ? nullptr : full->find("verbs");
      made["verbs"] = verbs != nullptr && verbs->size() > 0 ? *verbs : Json::array({"*"});
      if (const Json* selector = full == nullptr ? nullptr : full->find("defaultSelector")) {
        made["defaultSelector"] = *selector;
      }
      out.push_back(std::move(made));
    }
    put_annotation(object, krm::kClaimsV1alpha1Annotation, kept);
    object["spec"]["permissionClaims"] = std::move(out);
  }
}

void binding_from_storage(Json& object) {
  const Json kept = take_annotation(object, krm::kClaimsV1alpha1Annotation);
  if (const Json* claims = list_in(object, "spec", "permissionClaims")) {
    Json out = Json::array();
    Json others = Json::array();
    for (const Json& claim : claims->items()) {
      if (!is_all_verbs(claim) || !all_selected(claim)) {
        others.push_back(claim);
      }
      Json old = old_claim(claim);
      if (all_selected(claim)) {
        old["all"] = true;
      }
      restore_old_members(old, kept);
      if (const Json* state = claim.find("state")) {
        old["state"] = *state;
      }
      out.push_back(std::move(old));
    }
    put_annotation(object, krm::kAcceptableClaimsV1alpha2Annotation, others);
    object["spec"]["permissionClaims"] = std::move(out);
  }
  for (const StatusClaims& one : kStatusClaims) {
    status_from_storage(object, one);
  }
}

void binding_to_storage(Json& object) {
  const Json full = take_claims(object, krm::kAcceptableClaimsV1alpha2Annotation);
  const Json everything = Json::object({{"matchAll", true}});
  if (const Json* list = list_in(object, "spec", "permissionClaims")) {
    Json out = Json::array();
    Json kept = Json::array();
    for (const Json& claim : list->items()) {
      const Json* selector = claim.find("resourceSelector");
      if (selector != nullptr && selector->size() > 0) {
        kept.push_back(without_empty(claim));
      }
      Json made = new_claim(claim);
      const Json* known = find_claim(full, claim);
      const Json* verbs = known == nullptr ? nullptr : known->find("verbs");
      made["verbs"] = verbs != nullptr && verbs->size() > 0 ? *verbs : Json::array({"*"});
      const Json* selected = known == nullptr ? nullptr : known->find("selector");
      made["selector"] = selected == nullptr ? everything : *selected;
      if (const Json* state = claim.find("state")) {
        made["state"] = *state;
      }
      out.push_back(std::move(made));
    }
    put_annotation(object, krm::kClaimsV1alpha1Annotation, kept);
    object["spec"]["permissionClaims"] = std::move(out);
  }
  for (const StatusClaims& one : kStatusClaims) {
    status_to_storage(object, one);
  }
}

}  // namespace kintsugi::controlplane
