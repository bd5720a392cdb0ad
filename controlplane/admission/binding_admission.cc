#include "controlplane/admission/binding_admission.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "apiserver/judged_hook.h"
#include "base/strings.h"
#include "controlplane/admission/export_admission.h"
#include "controlplane/admission/internal/typed_form.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/controllers/binding_status.h"
#include "controlplane/internal/kcp_groups.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Error refused(std::string_view name, std::string_view text) {
  return krm::forbidden(kApisGroup, kApiBindings, name, text);
}

/// Admission of the reference comes before a name is made.
std::string shown_name(const apiserver::WriteContext& context, const Json& object) {
  return std::string(object.text({"metadata", context.generated_name ? "generateName" : "name"}));
}

/// The cluster in which the right to bind is asked. Of root, the export need not be known.
std::optional<std::string> export_cluster(const ApiCatalog& catalog, std::string_view cluster,
                                          const Json& binding) {
  const std::string_view path = binding.text({"spec", "reference", "export", "path"});
  if (path.empty()) {
    return std::string(cluster);
  }
  if (path == kRootCluster) {
    return std::string(kRootCluster);
  }
  const std::optional<ExportRef> ref =
      catalog.find_export(cluster, path, binding.text({"spec", "reference", "export", "name"}));
  return ref ? std::optional(ref->cluster) : std::nullopt;
}

std::size_t size_of(const Json& claim, std::string_view member) {
  const Json* value = claim.at({"selector", member});
  return value == nullptr ? 0 : value->size();
}

/// The selector with its members in the order in which kcp writes them.
std::string shown_selector(const Json& selector) {
  std::string out = "{";
  for (const char* member : {"matchLabels", "matchExpressions", "matchAll"}) {
    if (const Json* value = selector.find(member)) {
      ((out += out.size() > 1 ? ",\"" : "\"") += member) += "\":";
      value->dump_to(out);
    }
  }
  return out + "}";
}

const Json* export_of(const Json& binding) {
  const Json* found = binding.at({"spec", "reference", "export"});
  return found != nullptr && found->is_object() ? found : nullptr;
}

const krm::Schema& spec_schema() {
  return *api_binding_kind()->storage_version().schema->property("spec")->schema;
}

/// Whether kcp's admission can read the spec into its own struct.
bool is_readable(const Json& binding) {
  const Json* spec = binding.find("spec");
  Json copy = spec == nullptr ? Json() : *spec;
  return spec != nullptr && to_typed_form(spec_schema(), copy);
}

/// Faults of claims that the schema cannot say, as kcp prints lists of them.
std::vector<std::string> claim_faults(const Json& binding) {
  std::vector<std::string> faults;
  const Json* claims = binding.at({"spec", "permissionClaims"});
  for (std::size_t i = 0; claims != nullptr && i < claims->items().size(); ++i) {
    const Json& claim = claims->items()[i];
    const std::string field = "spec.permissionClaims[" + std::to_string(i) + "].selector";
    const Json* all = claim.at({"selector", "matchAll"});
    if (all == nullptr || !all->as_bool()) {
      if (size_of(claim, "matchLabels") == 0 && size_of(claim, "matchExpressions") == 0) {
        faults.push_back(
            field +
            ": Required value: either one of matchAll, matchLabels, or matchExpressions must be "
            "set");
      }
      continue;
    }
    for (const char* member : {"matchLabels", "matchExpressions"}) {
      if (size_of(claim, member) > 0) {
        faults.push_back(field + "." + member +
                         ": Invalid value: " + shown_selector(*claim.find("selector")) + ": " +
                         member + " cannot be used with matchAll");
      }
    }
  }
  return faults;
}

/// What admission has to say of a spec that fits its schema, as kcp prints lists (KK-161).
std::string spec_fault(const Json& binding) {
  std::vector<std::string> faults = claim_faults(binding);
  if (export_of(binding) == nullptr) {
    faults.insert(faults.begin(), "spec.reference.export: Required value");
  } else if (binding.text({"spec", "reference", "export", "name"}).empty()) {
    faults.insert(faults.begin(), "spec.reference.export.name: Required value");
  }
  return faults.empty() ? "" : "[" + join(faults, " ") + "]";
}

std::string phase_fault(const Json& binding, const Json& old) {
  const std::string_view before = old.text({"status", "phase"});
  return before.empty() || !binding.text({"status", "phase"}).empty()
             ? ""
             : "[status.phase: Forbidden: cannot transition from " + krm::go_quote(before) +
                   " to \"\"]";
}

bool same_at(const Json& a, const Json& b, std::initializer_list<std::string_view> path) {
  const Json* left = a.at(path);
  const Json* right = b.at(path);
  return (left == nullptr) == (right == nullptr) && (left == nullptr || *left == *right);
}

bool same_reference(const Json& a, const Json& b) { return same_at(a, b, {"spec", "reference"}); }

bool same_spec(const Json& a, const Json& b) { return same_at(a, b, {"spec"}); }

std::string claim_key(const Json& claim) {
  return std::string(claim.text({"group"})) + "/" + std::string(claim.text({"resource"})) + "/" +
         std::string(claim.text({"identityHash"}));
}

/// Verbs of an accepted claim; empty when it is not accepted.
std::vector<std::string> accepted_verbs(const Json& claim) {
  std::vector<std::string> out;
  const Json* verbs = claim.find("verbs");
  if (claim.text({"state"}) == "Accepted" && verbs != nullptr) {
    for (const Json& verb : verbs->items()) {
      out.emplace_back(verb.as_string());
    }
  }
  return out;
}

bool holds(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// Asks for the verbs of one claim after the other: for `*` first, which answers for all of them.
struct ClaimCheck : std::enable_shared_from_this<ClaimCheck> {
  auth::Authorizer& authorizer;
  auth::UserInfo user;
  std::string cluster, name;
  std::vector<NewClaim> claims;
  std::vector<std::string> missing;  ///< of the claim that is looked at
  apiserver::Hooks::AdmitDone done;

  ClaimCheck(auth::Authorizer& asked, auth::UserInfo who)
      : authorizer(asked), user(std::move(who)) {}

  void ask(std::string_view verb, std::string_view group, std::string_view resource,
           std::function<void(bool)> then) {
    auth::Attributes asked;
    asked.user = user;
    asked.cluster = cluster;
    asked.verb = verb;
    asked.group = group;
    asked.version = "*";
    asked.resource = resource;
    authorizer.authorize(asked, [self = shared_from_this(),
                                 then = std::move(then)](Expected<auth::Decision> decision) {
      if (!decision) {
        self->done(fail(std::move(decision.error())));
        return;
      }
      then(decision->allowed);
    });
  }

  void check_claim(std::size_t at) {
    if (at == claims.size()) {
      done({});
      return;
    }
    missing.clear();
    ask("*", claims[at].group, claims[at].resource, [this, at](bool all) {
      if (all) {
        check_claim(at + 1);
      } else {
        check_verb(at, 0);
      }
    });
  }

  void check_verb(std::size_t at, std::size_t verb) {
    const NewClaim& claim = claims[at];
    if (verb == claim.verbs.size()) {
      if (missing.empty()) {
        check_claim(at + 1);
      } else {
        done(fail(refused(name, "permission claim " + std::to_string(claim.index) +
                                    " grants verbs the user does not hold: [" + join(missing, " ") +
                                    "]")));
      }
      return;
    }
    ask(claim.verbs[verb], claim.group, claim.resource, [this, at, verb](bool allowed) {
      if (!allowed) {
        missing.push_back(claims[at].verbs[verb]);
      }
      check_verb(at, verb + 1);
    });
  }
};

bool is_marked(const Json& object) {
  return !object.text({"metadata", "deletionTimestamp"}).empty();
}

/// KK-224: "apis.kcp.io", and keys of that domain and of those below.
bool is_reserved_annotation(std::string_view key) {
  const std::size_t slash = key.find('/');
  const std::string_view domain = key.substr(0, slash);
  return domain == kApisGroup ||
         (slash != std::string_view::npos && domain.ends_with(".apis.kcp.io"));
}

/// The system may define the server's own kinds elsewhere, but nothing that ends with apis.kcp.io.
std::string definition_fault(const Json& object, bool is_schema, bool is_system) {
  const std::string_view group = object.text({"spec", "group"});
  if (is_reserved_group(group) && (!is_system || group.ends_with(kApisGroup))) {
    return std::string(group) + " is a reserved group";
  }
  const Json* annotations = object.at({"metadata", "annotations"});
  if (annotations != nullptr && annotations->is_object() && !is_schema) {
    for (const krm::JsonMember& member : annotations->members()) {
      if (is_reserved_annotation(member.key)) {
        return std::string(std::string_view(member.key)) + " is a reserved annotation";
      }
    }
  }
  return {};
}

/// What everybody may bind, as kcp's bootstrap policy says (KK-131).
bool is_open_export(std::string_view cluster, std::string_view name) {
  return cluster == kRootCluster && (name == kTenancyGroup || name == "topology.kcp.io");
}

}  // namespace

void prepare_binding(const apiserver::WriteContext& context, Json& binding, const Json* old) {
  if (context.verb == "delete" || !context.subresource.empty()) {
    return;
  }
  if (!is_marked(binding) && !apiserver::has_finalizer(binding, krm::kBindingFinalizer)) {
    binding.make({"metadata", "finalizers"}).push_back(Json(krm::kBindingFinalizer));
  }
  if (export_of(binding) != nullptr) {
    to_typed_form(spec_schema(), binding["spec"]);
  }
  if (old == nullptr) {
    return;
  }
  const std::optional<Json> stored = context.reader.get(context.cluster, kApisGroup, kApiBindings,
                                                        "", binding.text({"metadata", "name"}));
  if (const Json* status = stored ? stored->find("status") : nullptr) {
    binding["status"] = *status;
  }
}

void admit_binding(const ApiCatalog& catalog, auth::Authorizer& authorizer,
                   const apiserver::WriteContext& context, const Json* binding, const Json* old,
                   apiserver::Hooks::AdmitDone done) {
  if (binding == nullptr || context.verb == "delete" || !context.subresource.empty()) {
    done({});
    return;
  }
  const bool changed = old == nullptr || !same_reference(*binding, *old);
  if (!changed || export_of(*binding) == nullptr || !is_readable(*binding)) {
    done({});  // what is wrong with it, the schema and approve_binding say
    return;
  }
  const std::string name = shown_name(context, *binding);
  const std::string_view path = binding->text({"spec", "reference", "export", "path"});
  const std::string_view export_name = binding->text({"spec", "reference", "export", "name"});
  const std::string no_permission =
      "unable to " + std::string(old == nullptr ? "create" : "update") +
      " APIBinding: no permission to bind to export " +
      (path.empty() ? std::string(export_name)
                    : std::string(path) + ":" + std::string(export_name));
  const std::optional<std::string> cluster = export_cluster(catalog, context.cluster, *binding);
  if (!cluster) {
    done(fail(refused(name, no_permission)));
    return;
  }
  if (is_open_export(*cluster, export_name)) {
    done({});
    return;
  }
  auth::Attributes bind;
  bind.user = context.user;
  bind.cluster = *cluster;
  bind.verb = "bind";
  bind.group = kApisGroup;
  bind.version = "v1alpha1";
  bind.resource = kApiExports;
  bind.name = export_name;
  bind.deep = true;
  authorizer.authorize(
      bind, [name, no_permission, done = std::move(done)](Expected<auth::Decision> decision) {
        if (!decision) {
          done(fail(std::move(decision.error())));
        } else if (!decision->allowed) {
          done(fail(refused(name, no_permission)));
        } else {
          done({});
        }
      });
}

std::vector<NewClaim> newly_accepted(const Json& binding, const Json* old) {
  std::map<std::string, std::vector<std::string>> before;
  const Json* known = old == nullptr ? nullptr : old->at({"spec", "permissionClaims"});
  if (known != nullptr) {
    for (const Json& claim : known->items()) {
      before[claim_key(claim)] = accepted_verbs(claim);
    }
  }
  std::vector<NewClaim> out;
  const Json* claims = binding.at({"spec", "permissionClaims"});
  for (std::size_t i = 0; claims != nullptr && i < claims->items().size(); ++i) {
    const Json& claim = claims->items()[i];
    const std::vector<std::string>& had = before[claim_key(claim)];
    NewClaim one{i, std::string(claim.text({"group"})), std::string(claim.text({"resource"})), {}};
    for (std::string& verb : accepted_verbs(claim)) {
      if (!holds(had, verb) && !holds(had, "*")) {
        one.verbs.push_back(std::move(verb));
      }
    }
    if (!one.verbs.empty()) {
      out.push_back(std::move(one));
    }
  }
  return out;
}

namespace {

/// What gives much to whom it is given (KK-149): groups of which all is meant have no resource.
struct GreatClaim {
  std::string_view group, resource;
};
constexpr GreatClaim kGreatClaims[] = {
    {"", "secrets"},
    {"rbac.authorization.k8s.io", ""},
    {"admissionregistration.k8s.io", ""},
    {"apiextensions.k8s.io", "customresourcedefinitions"},
};

void warn_of_claims(const Json& binding, const Json* old, std::vector<std::string>& warnings) {
  for (const NewClaim& claim : newly_accepted(binding, old)) {
    const bool great =
        std::any_of(std::begin(kGreatClaims), std::end(kGreatClaims), [&](const GreatClaim& one) {
          return one.group == claim.group &&
                 (one.resource.empty() || one.resource == claim.resource);
        });
    if (great) {
      warnings.push_back("permission claim " + std::to_string(claim.index) +
                         " gives the provider of the API " + join(claim.verbs, ", ") + " on " +
                         claim.resource + (claim.group.empty() ? "" : "." + claim.group));
    }
  }
}

}  // namespace

void approve_binding(auth::Authorizer* authorizer, const apiserver::WriteContext& context,
                     const Json* binding, const Json* old, apiserver::Hooks::AdmitDone done) {
  const std::string name(binding == nullptr ? "" : binding->text({"metadata", "name"}));
  if (binding != nullptr && context.subresource == "status" && old != nullptr) {
    if (const std::string fault = phase_fault(*binding, *old); !fault.empty()) {
      done(fail(refused(name, fault)));
      return;
    }
  }
  if (binding != nullptr && context.subresource.empty()) {
    const bool changed = old == nullptr || !same_spec(*binding, *old);
    std::string fault = changed ? spec_fault(*binding) : "";
    fault = fault.empty() ? version_annotation_fault(*binding, old) : fault;
    fault = fault.empty() ? status_annotation_fault(*binding, old) : fault;
    if (!fault.empty()) {
      done(fail(refused(name, fault)));
      return;
    }
    warn_of_claims(*binding, old, context.warnings);
  }
  if (binding == nullptr || has_any(context.user, kSystem)) {
    done({});
    return;
  }
  if (context.subresource == "status") {
    done(fail(refused(name, "access denied")));
    return;
  }
  if (old != nullptr && is_marked(*old) && apiserver::has_finalizer(*old, krm::kBindingFinalizer) &&
      !apiserver::has_finalizer(*binding, krm::kBindingFinalizer)) {
    done(fail(refused(
        name, "removing the finalizer " + std::string(krm::kBindingFinalizer) + " is forbidden")));
    return;
  }
  if (authorizer == nullptr || has_any(context.user, kBootstrapper | kAdmin)) {
    done({});
    return;
  }
  auto check = std::make_shared<ClaimCheck>(*authorizer, context.user);
  check->cluster = context.cluster;
  check->name = name;
  check->claims = newly_accepted(*binding, old);
  check->done = std::move(done);
  check->check_claim(0);
}

apiserver::ResourcePtr with_reserved_groups(const apiserver::ResourcePtr& definitions) {
  auto def = std::make_shared<apiserver::ResourceDef>(*definitions);
  const bool is_schema = def->group == kApisGroup;
  const auto judge = [is_schema, group = def->group, plural = def->plural](
                         const apiserver::WriteContext& context, const Json* object,
                         const Json* old) -> Expected<void> {
    const bool is_free = object == nullptr || context.verb == "delete" ||
                         context.cluster == kRootCluster ||
                         context.cluster.starts_with("system:") ||
                         (old != nullptr && has_any(context.user, kSystem));
    const std::string fault =
        is_free ? std::string()
                : definition_fault(*object, is_schema, has_any(context.user, kSystem));
    if (fault.empty()) {
      return {};
    }
    return fail(krm::forbidden(group, plural, object->text({"metadata", "name"}), fault));
  };
  def->hooks.admit = apiserver::judged_hook(judge, std::move(def->hooks.admit));
  return def;
}

}  // namespace kintsugi::controlplane
