#include "controlplane/admission/logical_cluster_admission.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "controlplane/admission/privileges.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using Texts = std::set<std::string, std::less<>>;

constexpr std::string_view kInactiveAnnotations[] = {krm::kInactiveAnnotation,
                                                     krm::kFormerInactiveAnnotation};

Error forbidden(std::string_view text) {
  return krm::forbidden(kCoreGroup, kLogicalClusters, kClusterName, text);
}

Texts texts_of(const Json* list) {
  Texts out;
  if (list != nullptr && list->is_array()) {
    for (const Json& item : list->items()) {
      out.emplace(item.as_string());
    }
  }
  return out;
}

Texts finalizers_of(const Json& object) { return texts_of(object.at({"metadata", "finalizers"})); }

bool is_marked(const Json& object) {
  return !object.text({"metadata", "deletionTimestamp"}).empty();
}

bool is_within(const Texts& part, const Texts& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

/// Phases in their order; those that only the system gives come first.
int order_of(std::string_view phase) {
  constexpr std::string_view kOrder[] = {"Ready", "Initializing", "Scheduling", ""};
  const auto found = std::find(std::begin(kOrder), std::end(kOrder), phase);
  return static_cast<int>(std::end(kOrder) - found);
}

std::string immutable(std::string_view field, const Json* value) {
  const Cause cause = krm::field_invalid("spec." + std::string(field),
                                         value == nullptr ? Json() : *value, "field is immutable");
  return cause.field + ": " + cause.message;
}

/// Equal, where absent and false are the same.
bool is_same(const Json* a, const Json* b) {
  const auto is_unset = [](const Json* value) {
    return value == nullptr || value->is_null() || *value == Json(false);
  };
  return (is_unset(a) && is_unset(b)) || (a != nullptr && b != nullptr && *a == *b);
}

/// KK-094, KK-095, KK-100.
std::string spec_fault(const Json& now, const Json& old) {
  const auto field = [](const Json& object, std::string_view name) {
    return object.at({"spec", name});
  };
  if (!is_same(field(now, "createdBy"), field(old, "createdBy"))) {
    return immutable("createdBy", field(now, "createdBy"));
  }
  if (texts_of(field(now, "initializers")) != texts_of(field(old, "initializers"))) {
    return "spec.initializers is immutable";
  }
  std::vector<std::string> names;
  for (const Json* object : {&now, &old}) {
    const Json* spec = object->find("spec");
    if (spec != nullptr && spec->is_object()) {
      for (const krm::JsonMember& member : spec->members()) {
        names.emplace_back(std::string_view(member.key));
      }
    }
  }
  for (const std::string& name : names) {
    const bool same =
        name == "initializers" || name == "createdBy" ||
        (name == "terminators" ? texts_of(field(now, name)) == texts_of(field(old, name))
                               : is_same(field(now, name), field(old, name)));
    if (!same) {
      return immutable(name, field(now, name));
    }
  }
  return {};
}

/// KK-098.
std::string inactive_fault(const Json& now, const Json& old) {
  const std::string_view phase = old.text({"status", "phase"});
  for (const std::string_view key : kInactiveAnnotations) {
    if (phase != "Ready" && annotation(now, key) == "true" && annotation(old, key) != "true") {
      return "LogicalCluster can only be marked inactive in phase \"Ready\", but is in phase " +
             krm::go_quote(phase);
    }
  }
  return {};
}

/// KK-096. What terminates may change: its virtual workspace says who removes what (KK-350).
std::string initializers_fault(const Json& now, const Json& old) {
  const std::string_view before = old.text({"status", "phase"});
  const std::string_view after = now.text({"status", "phase"});
  const Texts has = texts_of(now.at({"status", "initializers"}));
  const Texts had = texts_of(old.at({"status", "initializers"}));
  if (after == "Initializing" && before != after) {
    return has == texts_of(now.at({"spec", "initializers"}))
               ? ""
               : "status.initializers do not equal spec.initializers";
  }
  if (after == "Initializing") {
    return is_within(has, had) ? "" : "status.initializers must not grow";
  }
  if (before == "Initializing") {
    return has.empty() ? "" : "status.initializers is not empty";
  }
  return has == had ? "" : "status.initializers is immutable after initialization";
}

std::string update_fault(const apiserver::WriteContext& context, const Json& now, const Json& old) {
  if (context.subresource == "status") {
    return cluster_status_fault(now, old);
  }
  std::string fault = spec_fault(now, old);
  return fault.empty() ? inactive_fault(now, old) : fault;
}

}  // namespace

Expected<void> receive_logical_cluster(const apiserver::WriteContext& context,
                                       const apiserver::ResourceDef& def, const Json& object,
                                       const Json* old) {
  if (def.group != kCoreGroup || def.plural != kLogicalClusters || old == nullptr ||
      has_any(context.user, kExempt | kAdmin)) {
    return {};
  }
  const Texts now = finalizers_of(object);
  const Texts before = finalizers_of(*old);
  if (now == before) {
    return {};
  }
  const std::string finalizer(krm::kLogicalClusterFinalizer);
  if (before.contains(finalizer) && !now.contains(finalizer)) {
    return fail(forbidden(is_marked(*old) ? "removing the finalizer " + finalizer + " is forbidden"
                                          : "finalizer " + finalizer + " is required"));
  }
  return fail(forbidden("metadata.finalizers: Forbidden: only administrators may change them"));
}

void prepare_logical_cluster(Json& object, const Json* old) {
  const bool going = is_marked(object) || (old != nullptr && is_marked(*old));
  if (!going && !finalizers_of(object).contains(krm::kLogicalClusterFinalizer)) {
    object.make({"metadata", "finalizers"}).push_back(Json(krm::kLogicalClusterFinalizer));
  }
  keep_lifecycle(object);
}

std::string cluster_status_fault(const Json& now, const Json& old) {
  const std::string_view before = old.text({"status", "phase"});
  const std::string_view after = now.text({"status", "phase"});
  if (order_of(before) > order_of(after)) {
    return "cannot transition from " + krm::go_quote(before) + " to " + krm::go_quote(after);
  }
  return initializers_fault(now, old);
}

void approve_logical_cluster(const apiserver::WriteContext& context, const Json* object,
                             const Json* old, const apiserver::Hooks::AdmitDone& done) {
  const auto answer = [&done](const std::string& fault) {
    if (fault.empty()) {
      done({});
    } else {
      done(fail(forbidden(fault)));
    }
  };
  const std::string finalizer(krm::kLogicalClusterFinalizer);
  if (object != nullptr && old != nullptr && is_marked(*old) &&
      finalizers_of(*old).contains(finalizer) && !finalizers_of(*object).contains(finalizer) &&
      !has_any(context.user, kSystem)) {
    answer("removing the finalizer " + finalizer + " is forbidden");
  } else if (has_any(context.user, kExempt)) {
    answer({});
  } else if (old == nullptr) {
    answer("LogicalCluster cannot be created");
  } else if (object == nullptr) {
    const Json* deletable = old->at({"spec", "directlyDeletable"});
    answer(deletable != nullptr && deletable->as_bool() ? "" : "LogicalCluster cannot be deleted");
  } else {
    answer(update_fault(context, *object, *old));
  }
}

namespace {

class LogicalClusters final : public apiserver::AdmissionStep {
 public:
  Expected<void> receive(const apiserver::WriteContext& context, const apiserver::ResourceDef& def,
                         krm::Json& object, const krm::Json* old) override {
    return receive_logical_cluster(context, def, object, old);
  }
};

}  // namespace

std::unique_ptr<apiserver::AdmissionStep> logical_cluster_step() {
  return std::make_unique<LogicalClusters>();
}

}  // namespace kintsugi::controlplane
