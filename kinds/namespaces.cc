#include <algorithm>
#include <memory>
#include <utility>

#include "kinds/common.h"
#include "krm/finalizers.h"
#include "krm/labels.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

void set_name_label(Json& object) {
  const std::string name(object.text({"metadata", "name"}));
  if (!name.empty()) {
    object.make({"metadata", "labels"})[krm::kNamespaceNameLabel] = Json(name);
  }
}

void prepare(const apiserver::WriteContext& context, Json& object, const Json* old) {
  if (context.verb == "delete") {
    object.make({"status", "phase"}) = Json("Terminating");
    object.make({"metadata"}).erase("deletionGracePeriodSeconds");
    return;
  }
  set_name_label(object);
  if (old == nullptr) {
    object["status"] = Json::object({{"phase", Json("Active")}});
    Json& finalizers = object.make({"spec", "finalizers"});
    const auto& present = finalizers.items();
    if (std::find(present.begin(), present.end(), Json(krm::kNamespaceFinalizer)) ==
        present.end()) {
      finalizers.push_back(Json(krm::kNamespaceFinalizer));
    }
  } else if (context.subresource == "status") {
    copy_member(object, *old, "spec");
    if (object.text({"status", "phase"}).empty()) {
      object.make({"status", "phase"}) = Json("Active");
    }
  } else if (context.subresource == "finalize") {
    copy_member(object, *old, "status");
  } else {
    copy_member(object, *old, "spec");
    copy_member(object, *old, "status");
  }
}

void validate(const apiserver::WriteContext& context, const Json& object, const Json* old,
              std::vector<Cause>& causes) {
  if (const Json* finalizers = object.at({"spec", "finalizers"})) {
    const std::string field = "spec.finalizers";
    for (const Json& finalizer : finalizers->items()) {
      const std::string_view name = finalizer.as_string();
      for (const std::string& fault : krm::check_qualified_name(name)) {
        causes.push_back(krm::field_invalid(field, finalizer, fault));
      }
      if (name.find('/') == std::string_view::npos && name != krm::kNamespaceFinalizer) {
        causes.push_back(krm::field_invalid(
            field, finalizer,
            "name is neither a standard finalizer name nor is it fully qualified"));
      }
    }
  }
  if (old != nullptr && context.subresource == "status") {
    const bool deleted = object.at({"metadata", "deletionTimestamp"}) != nullptr;
    const std::string_view phase = object.text({"status", "phase"});
    if (!deleted && phase != "Active") {
      causes.push_back(krm::field_invalid("status.Phase", Json(phase),
                                          "may only be 'Active' if `deletionTimestamp` is empty"));
    } else if (deleted && phase != "Terminating") {
      causes.push_back(
          krm::field_invalid("status.Phase", Json(phase),
                             "may only be 'Terminating' if `deletionTimestamp` is not empty"));
    }
  }
}

void admit(const apiserver::WriteContext& context, const Json*, const Json* old,
           apiserver::Hooks::AdmitDone done) {
  if (context.verb == "delete" && old != nullptr) {
    const std::string_view name = old->text({"metadata", "name"});
    if (name == "default" || name == "kube-system" || name == "kube-public") {
      done(fail(krm::forbidden("", "namespaces", name, "this namespace may not be deleted")));
      return;
    }
  }
  done({});
}

}  // namespace

apiserver::ResourcePtr namespace_kind() {
  apiserver::ResourceDef def = make_kind("", "v1", "Namespace", "namespaces");
  def.short_names = {"ns"};
  def.namespaced = false;
  def.name_rule = apiserver::NameRule::kLabel;
  def.spec_finalizers = true;
  def.has_namespace_field = false;
  def.delete_answers_object = true;
  std::erase(def.verbs, "deletecollection");
  def.field_labels = {{"status.phase", ".status.phase"}};
  apiserver::ResourceDef::ExtraSubresource finalize;
  finalize.name = "finalize";
  finalize.kind = "Namespace";
  finalize.verbs = {"update"};
  def.subresources.push_back(std::move(finalize));
  apiserver::Column status;
  status.name = "Status";
  status.description = "The status of the namespace";
  status.json_path = ".status.phase";
  def.versions[0].columns = {std::move(status), age_column()};
  def.versions[0].status = true;
  def.status_metadata = true;
  set_defaults_and_prepare(def.hooks, set_name_label, prepare);
  def.hooks.validate = validate;
  def.hooks.admit = admit;
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace kintsugi::kinds
