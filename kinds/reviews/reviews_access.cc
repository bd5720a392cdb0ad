#include <string>
#include <utility>

#include "base/strings.h"
#include "kinds/reviews/internal/reviews_internal.h"
#include "kinds/reviews/reviews.h"
#include "krm/status.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kGroup = "authorization.k8s.io";

bool present(const Json* value) { return value != nullptr && !value->is_null(); }

/// Non-resource attributes as Go prints the internal type.
Json go_value(const Json& attributes) {
  return Json::object(
      {{"Path", Json(attributes.text({"path"}))}, {"Verb", Json(attributes.text({"verb"}))}});
}

void check_attributes(const Json& object, std::vector<Cause>& causes) {
  const bool resource = present(object.at({"spec", "resourceAttributes"}));
  const Json* path = object.at({"spec", "nonResourceAttributes"});
  if (resource && present(path)) {
    causes.push_back(krm::field_invalid("spec.nonResourceAttributes", go_value(*path),
                                        "cannot be specified in combination with "
                                        "resourceAttributes"));
  } else if (!resource && !present(path)) {
    causes.push_back(krm::field_invalid(
        "spec.resourceAttributes", Json(),
        "exactly one of nonResourceAttributes or resourceAttributes must be specified"));
  }
}

/// Field and label selectors that a request would have.
void check_selectors(const Json& object, std::vector<Cause>& causes) {
  for (const char* member : {"fieldSelector", "labelSelector"}) {
    const Json* selector = object.at({"spec", "resourceAttributes", member});
    if (!present(selector)) {
      continue;
    }
    const std::string at = std::string("spec.resourceAttributes.") + member;
    const std::string_view raw = selector->text({"rawSelector"});
    const Json* requirements = selector->find("requirements");
    if (!raw.empty() && requirements != nullptr && requirements->size() != 0) {
      causes.push_back(krm::field_invalid(at + ".rawSelector", Json(raw),
                                          "may not specified at the same time as requirements"));
    }
  }
}

void check_subject(const Json& object, std::vector<Cause>& causes) {
  const Json* groups = object.at({"spec", "groups"});
  if (object.text({"spec", "user"}).empty() && (groups == nullptr || groups->size() == 0)) {
    causes.push_back(
        krm::field_invalid("spec.user", "", "at least one of user or group must be specified"));
  }
}

void check_namespace(const Json& object, std::vector<Cause>& causes) {
  const Json* resource = object.at({"spec", "resourceAttributes"});
  const std::string_view ns = present(resource) ? resource->text({"namespace"}) : "";
  if (present(resource) && ns != object.text({"metadata", "namespace"})) {
    causes.push_back(krm::field_invalid("spec.resourceAttributes.namespace", Json(ns),
                                        "must match metadata.namespace"));
  }
  if (const Json* path = object.at({"spec", "nonResourceAttributes"}); present(path)) {
    causes.push_back(krm::field_invalid("spec.nonResourceAttributes", go_value(*path),
                                        "disallowed on this kind of request"));
  }
}

auth::Attributes attributes_of(const Json& spec, auth::UserInfo user, std::string_view cluster) {
  auth::Attributes attributes;
  attributes.user = std::move(user);
  attributes.cluster = cluster;
  if (const Json* resource = spec.find("resourceAttributes"); present(resource)) {
    attributes.verb = resource->text({"verb"});
    attributes.group = resource->text({"group"});
    attributes.version = resource->text({"version"});
    attributes.resource = resource->text({"resource"});
    attributes.subresource = resource->text({"subresource"});
    attributes.ns = resource->text({"namespace"});
    attributes.name = resource->text({"name"});
  } else {
    attributes.is_resource = false;
    attributes.verb = spec.text({"nonResourceAttributes", "verb"});
    attributes.path = spec.text({"nonResourceAttributes", "path"});
  }
  return attributes;
}

auth::UserInfo subject_of(const Json& spec) {
  auth::UserInfo user;
  user.name = spec.text({"user"});
  user.uid = spec.text({"uid"});
  if (const Json* groups = spec.find("groups")) {
    for (const Json& group : groups->items()) {
      user.groups.emplace_back(group.as_string());
    }
  }
  if (const Json* extra = spec.find("extra")) {
    for (const krm::JsonMember& member : extra->members()) {
      std::vector<std::string> values;
      for (const Json& value : member.value.items()) {
        values.emplace_back(value.as_string());
      }
      user.extra.emplace_back(member.key, std::move(values));
    }
  }
  return user;
}

/// Asks and puts the answer into the review's status.
void answer_access(auth::Authorizer& authorizer, const auth::Attributes& attributes, Json object,
                   apiserver::Hooks::CreateDone done) {
  authorizer.authorize(attributes, [object = std::move(object), done = std::move(done)](
                                       Expected<auth::Decision> decision) mutable {
    Json status = Json::object({{"allowed", decision && decision->allowed}});
    if (!decision) {
      status["evaluationError"] = decision.error().message();
    } else if (!decision->reason.empty()) {
      status["reason"] = decision->reason;
    }
    finish_review(object, std::move(status));
    done(std::move(object));
  });
}

using Check = void (*)(const Json& object, std::vector<Cause>& causes);

/// One of the three kinds about a subject, or about the caller.
apiserver::ResourcePtr access_review(const char* kind, bool namespaced, std::vector<Check> checks,
                                     bool self, auth::Authorizer& authorizer) {
  auto definition = review_definition(kGroup, kind, namespaced);
  definition->hooks.answer = [checks = std::move(checks), self, &authorizer](
                                 const apiserver::WriteContext& context, Json object,
                                 apiserver::Hooks::CreateDone done) {
    std::vector<Cause> causes;
    for (const Check check : checks) {
      check(object, causes);
    }
    if (!causes.empty()) {
      done(fail(krm::invalid(kGroup, "", "", std::move(causes))));
      return;
    }
    const Json& spec = *object.find("spec");
    auth::Attributes attributes =
        attributes_of(spec, self ? context.user : subject_of(spec), context.cluster);
    attributes.deep = context.deep_review && !self;
    answer_access(authorizer, attributes, std::move(object), std::move(done));
  };
  return definition;
}

apiserver::ResourcePtr rules_review(const RbacAuthorizer* rbac) {
  auto definition = review_definition(kGroup, "SelfSubjectRulesReview", false);
  definition->hooks.answer = [rbac](const apiserver::WriteContext& context, Json object,
                                    apiserver::Hooks::CreateDone done) {
    const std::string_view ns = object.text({"spec", "namespace"});
    if (ns.empty()) {
      done(fail(krm::bad_request("no namespace on request")));
      return;
    }
    Json resources = Json::array();
    Json paths = Json::array();
    if (rbac != nullptr) {
      for (const PolicyRule& rule : rbac->rules_for(context.user, context.cluster, ns)) {
        const bool is_path = !rule.non_resource_urls.empty();
        const Json item = rules_to_json({rule}).items().front();
        (is_path ? paths : resources).push_back(item);
      }
    }
    object["spec"] = Json::object();  // as the reference answers
    finish_review(object, Json::object({{"resourceRules", std::move(resources)},
                                        {"nonResourceRules", std::move(paths)},
                                        {"incomplete", rbac == nullptr}}));
    done(std::move(object));
  };
  return definition;
}

}  // namespace

std::shared_ptr<apiserver::ResourceDef> review_definition(std::string_view group,
                                                          std::string_view kind, bool namespaced) {
  auto definition = std::make_shared<apiserver::ResourceDef>();
  definition->group = group;
  definition->kind = kind;
  definition->list_kind = std::string(kind) + "List";
  definition->singular = to_lower(kind);
  definition->plural = definition->singular + "s";
  definition->namespaced = namespaced;
  definition->builtin = true;
  definition->virtual_create_only = true;
  definition->verbs = {"create"};
  definition->name_rule = apiserver::NameRule::kNone;
  apiserver::ResourceVersion version;
  version.name = "v1";
  version.schema = krm::builtin_schema(std::string(group) + "/v1", kind);
  definition->versions.push_back(std::move(version));
  return definition;
}

void finish_review(krm::Json& object, krm::Json status) {
  if (object.find("metadata") == nullptr) {
    object["metadata"] = Json::object();
  }
  object["status"] = std::move(status);
}

std::vector<apiserver::ResourcePtr> access_review_kinds(const ReviewParams& params) {
  return {
      access_review("LocalSubjectAccessReview", true,
                    {check_attributes, check_selectors, check_subject, check_namespace}, false,
                    params.authorizer),
      access_review("SelfSubjectAccessReview", false, {check_attributes, check_selectors}, true,
                    params.authorizer),
      rules_review(params.rbac),
      access_review("SubjectAccessReview", false,
                    {check_attributes, check_selectors, check_subject}, false, params.authorizer)};
}

}  // namespace kintsugi::kinds
