#include "kinds/policies/internal/params.h"

#include <utility>

#include "apiserver/served_kind.h"

namespace kintsugi::kinds {

using krm::Json;

apiserver::ResourcePtr find_kind(const apiserver::Registry& registry, std::string_view cluster,
                                 const GroupVersionName& kind) {
  for (const apiserver::ResourcePtr& def : registry.all(cluster)) {
    if (def->kind != kind.name || def->group != kind.group || def->virtual_create_only) {
      continue;
    }
    const apiserver::ResourceVersion* version = def->version(kind.version);
    if (version != nullptr && version->served) {
      return def;
    }
  }
  return nullptr;
}

ParamSource::ParamSource(const apiserver::Registry& registry, const apiserver::ObjectReader& reader,
                         std::string_view cluster, const std::optional<GroupVersionName>& kind)
    : reader_(reader), cluster_(cluster), kind_(kind) {
  if (kind) {
    def_ = find_kind(registry, cluster, *kind);
  }
}

std::string ParamSource::unknown_text() const {
  return "failed to find resource referenced by paramKind: '" + kind_->group +
         (kind_->group.empty() ? "" : "/") + kind_->version + ", Kind=" + kind_->name + "'";
}

Expected<ParamSet> ParamSource::collect(const std::optional<ParamRef>& ref,
                                        std::string_view ns) const {
  ParamSet out;
  if (!kind_ || !ref) {
    out.emplace_back();
    return out;
  }
  std::string_view where;
  if (def_->namespaced) {
    where = ref->ns.empty() ? ns : std::string_view(ref->ns);
    if (where.empty()) {
      return fail(Errc::kInvalid,
                  "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                  "resources");
    }
  } else if (!ref->ns.empty()) {
    return fail(Errc::kInvalid,
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`");
  }
  const apiserver::ServedKindPtr served =
      apiserver::make_served_kind(def_, def_->version(kind_->version));
  const auto add = [&](Json object) {
    if (object.text({"apiVersion"}) != served->api_version && def_->webhook == nullptr) {
      served->from_storage(object);
    }
    out.emplace_back(std::move(object));
  };
  if (!ref->name.empty()) {
    if (std::optional<Json> object =
            reader_.get(cluster_, def_->group, def_->plural, where, ref->name)) {
      add(std::move(*object));
    }
  } else {
    reader_.list(cluster_, def_->group, def_->plural, where, [&](const Json& object) {
      const Json* labels = object.at({"metadata", "labels"});
      if (!ref->selector || ref->selector->matches(labels == nullptr ? Json() : *labels)) {
        add(object);
      }
      return true;
    });
  }
  if (out.empty() && ref->must_exist) {
    return fail(Errc::kInvalid,
                "no params found for policy binding with `Deny` parameterNotFoundAction");
  }
  return out;
}

}  // namespace kintsugi::kinds
