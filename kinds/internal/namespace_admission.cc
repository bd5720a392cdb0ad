#include "kinds/internal/namespace_admission.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

constexpr std::string_view kNamespaces = "namespaces";

bool is_deleted(const store::Entry& ns) {
  // The bytes tell in most cases, without decoding the namespace for every create in it.
  if (ns.value.view().find("deletionTimestamp") == std::string_view::npos) {
    return false;
  }
  const Expected<krm::Json> object =
      apiserver::decode_stored(ns.value.view(), "v1", "Namespace", ns.modified);
  return !object || object->at({"metadata", "deletionTimestamp"}) != nullptr;
}

}  // namespace

Expected<std::vector<store::Op>> NamespaceAdmission::check_new(
    const apiserver::PendingWrite& write) const {
  const apiserver::ResourceDef& def = *write.kind->def;
  if (!def.namespaced || registry_.find(write.cluster, "", kNamespaces) == nullptr) {
    return std::vector<store::Op>();
  }
  std::optional<std::string> key = apiserver::object_key(kNamespaces, write.cluster, "", write.ns);
  const Expected<store::Entry> found =
      key ? store_.get(*key) : Expected<store::Entry>(fail(Errc::kNotFound));
  if (!found) {
    return fail(found.error().code() == Errc::kNotFound ? krm::not_found("", kNamespaces, write.ns)
                                                        : found.error().clone());
  }
  if (!is_deleted(*found)) {
    return std::vector<store::Op>{store::unchanged(std::move(*key), found->modified)};
  }
  Error error = krm::forbidden(
      def.group, def.plural, write.name,
      "unable to create new content in namespace " + write.ns + " because it is being terminated");
  error.edit().causes.push_back({"NamespaceTerminating",
                                 "namespace " + write.ns + " is being terminated",
                                 "metadata.namespace"});
  return fail(std::move(error));
}

}  // namespace kintsugi::kinds
