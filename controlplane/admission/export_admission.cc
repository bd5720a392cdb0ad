#include "controlplane/admission/export_admission.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "controlplane/admission/privileges.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

struct ClaimableKind {
  std::string_view group, plural;
};

/// Kinds that are the same for every consumer: a claim on them names no identity. As kcp has it.
constexpr ClaimableKind kBuiltinClaims[] = {
    {"", "namespaces"},
    {"", "configmaps"},
    {"", "events"},
    {"events.k8s.io", "events"},
    {"", "resourcequotas"},
    {"", "secrets"},
    {"", "serviceaccounts"},
    {"rbac.authorization.k8s.io", "roles"},
    {"rbac.authorization.k8s.io", "rolebindings"},
    {"rbac.authorization.k8s.io", "clusterroles"},
    {"rbac.authorization.k8s.io", "clusterrolebindings"},
    {"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
    {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
    {"admissionregistration.k8s.io", "validatingadmissionpolicies"},
    {"admissionregistration.k8s.io", "validatingadmissionpolicybindings"},
    {"admissionregistration.k8s.io", "mutatingadmissionpolicies"},
    {"admissionregistration.k8s.io", "mutatingadmissionpolicybindings"},
    {"apiextensions.k8s.io", "customresourcedefinitions"},
    {"coordination.k8s.io", "leases"},
    {"certificates.k8s.io", "certificatesigningrequests"},
    {"core.kcp.io", "logicalclusters"},
    {"authorization.k8s.io", "subjectaccessreviews"},
    {"authorization.k8s.io", "localsubjectaccessreviews"},
    {"authentication.k8s.io", "tokenreviews"},
};

bool needs_identity(std::string_view group, std::string_view resource) {
  const std::string_view plural = resource.substr(0, resource.find('/'));
  return group != kApisGroup && std::none_of(std::begin(kBuiltinClaims), std::end(kBuiltinClaims),
                                             [&](const ClaimableKind& one) {
                                               return one.group == group && one.plural == plural;
                                             });
}

/// The list at spec.<member>; nothing when it is none.
std::vector<const Json*> listed(const Json* object, std::string_view member) {
  std::vector<const Json*> out;
  const Json* list = object == nullptr ? nullptr : object->at({"spec", member});
  if (list != nullptr && list->is_array()) {
    for (const Json& one : list->items()) {
      out.push_back(&one);
    }
  }
  return out;
}

bool was_there(const std::vector<const Json*>& before, const Json& one) {
  return std::any_of(before.begin(), before.end(), [&](const Json* old) { return *old == one; });
}

std::string invalid_text(const std::string& field, std::string_view value, std::string_view text) {
  return field + ": Invalid value: " + krm::go_quote(value) + ": " + std::string(text);
}

/// What v1alpha1 keeps of v1alpha2 (KK-147, KK-170).
constexpr std::string_view kKeptClaims[] = {
    krm::kClaimsV1alpha2Annotation,
    krm::kAcceptableClaimsV1alpha2Annotation,
};

constexpr std::string_view kKeptStatusClaims[] = {
    krm::kStatusExportClaimsAnnotation,
    krm::kStatusAppliedClaimsAnnotation,
    krm::kStatusExportClaimsV1alpha1Annotation,
    krm::kStatusAppliedClaimsV1alpha1Annotation,
};

bool names_same(const Json& a, const Json& b) {
  return a.text({"group"}) == b.text({"group"}) && a.text({"resource"}) == b.text({"resource"}) &&
         a.text({"identityHash"}) == b.text({"identityHash"});
}

std::string annotation_field(std::string_view key) {
  return "metadata.annotations[" + std::string(key) + "]";
}

/// The annotation where it is new; null otherwise.
const Json* new_annotation(const Json& object, const Json* old, std::string_view key) {
  const Json* now = object.at({"metadata", "annotations", key});
  const Json* before = old == nullptr ? nullptr : old->at({"metadata", "annotations", key});
  return now == nullptr || (before != nullptr && *now == *before) ? nullptr : now;
}

/// The fault of an annotation that lists what was kept of `what`.
/// @param fits whether one of the kept objects may stand beside the spec; `otherwise` says why not.
template <typename Fits>
std::string kept_fault(const Json& object, const Json* old, std::string_view key,
                       std::string_view what, Fits fits, std::string_view otherwise) {
  const Json* annotation = new_annotation(object, old, key);
  if (annotation == nullptr) {
    return {};
  }
  const auto invalid = [&](const std::string& why) {
    return invalid_text(annotation_field(key), annotation->as_string(), why);
  };
  const Expected<Json> list = Json::parse(annotation->as_string(), {64, false});
  const auto is_object = [](const Json& one) { return one.is_object(); };
  if (!list || !list->is_array() ||
      !std::all_of(list->items().begin(), list->items().end(), is_object)) {
    return invalid("failed to decode overhanging " + std::string(what));
  }
  const bool all_fit = std::all_of(list->items().begin(), list->items().end(), fits);
  return all_fit ? std::string() : invalid(std::string(otherwise));
}

std::string kept_schemas_fault(const Json& object, const Json* old) {
  const std::vector<const Json*> resources = listed(&object, "resources");
  return kept_fault(
      object, old, krm::kSchemasV1alpha2Annotation, "resource schemas",
      [&](const Json& kept) {
        return std::none_of(resources.begin(), resources.end(), [&](const Json* resource) {
          return resource->text({"schema"}) == kept.text({"schema"});
        });
      },
      "duplicate resource schema");
}

std::string kept_claims_fault(const Json& object, const Json* old, std::string_view key) {
  const std::vector<const Json*> claims = listed(&object, "permissionClaims");
  return kept_fault(
      object, old, key, "permission claims",
      [&](const Json& kept) {
        return std::any_of(claims.begin(), claims.end(),
                           [&](const Json* claim) { return names_same(*claim, kept); });
      },
      "permission claims defined in annotation do not match permission claims defined in spec");
}

}  // namespace

std::string export_fault(const Json& object, const Json* old) {
  const std::vector<const Json*> claims = listed(&object, "permissionClaims");
  const std::vector<const Json*> claimed = listed(old, "permissionClaims");
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Json& claim = *claims[i];
    if (claim.text({"identityHash"}).empty() && !was_there(claimed, claim) &&
        needs_identity(claim.text({"group"}), claim.text({"resource"}))) {
      return invalid_text("spec.permissionClaims[" + std::to_string(i) + "].identityHash", "",
                          "identityHash is required for API types that are not built-in");
    }
  }
  const std::vector<const Json*> resources = listed(&object, "resources");
  const std::vector<const Json*> served = listed(old, "resources");
  for (std::size_t i = 0; i < resources.size(); ++i) {
    const Json& resource = *resources[i];
    const std::string_view group = resource.text({"group"});
    const std::string_view name = resource.text({"name"});
    const std::string end = "." + std::string(name.substr(0, name.find('/'))) + "." +
                            std::string(group.empty() ? std::string_view("core") : group);
    const std::string_view schema = resource.text({"schema"});
    if (!schema.ends_with(end) && !was_there(served, resource)) {
      return invalid_text("spec.resources[" + std::to_string(i) + "].schema", schema,
                          "must end in " + end);
    }
  }
  return {};
}

std::string version_annotation_fault(const Json& object, const Json* old) {
  std::string fault = kept_schemas_fault(object, old);
  for (const std::string_view key : kKeptClaims) {
    if (fault.empty()) {
      fault = kept_claims_fault(object, old, key);
    }
  }
  return fault;
}

std::string status_annotation_fault(const Json& object, const Json* old) {
  std::string fault;
  for (const std::string_view key : kKeptStatusClaims) {
    if (fault.empty()) {
      fault = kept_fault(
          object, old, key, "permission claims", [](const Json&) { return true; }, "");
    }
  }
  return fault;
}

void approve_export(const apiserver::WriteContext& context, const Json* object, const Json* old,
                    const apiserver::Hooks::AdmitDone& done) {
  std::string fault;
  if (object != nullptr && context.subresource == "status") {
    fault = has_any(context.user, kSystem) ? "" : "access denied";
  } else if (object != nullptr && context.subresource.empty()) {
    fault = version_annotation_fault(*object, old);
    fault = fault.empty() ? export_fault(*object, old) : fault;
  }
  if (fault.empty()) {
    done({});
  } else {
    done(fail(krm::forbidden(kApisGroup, kApiExports, object->text({"metadata", "name"}), fault)));
  }
}

}  // namespace kintsugi::controlplane
