#include "kinds/policies/internal/write_subject.h"

#include <utility>

#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

/// The resource that a kind's objects are stored under in another group (events), if any.
apiserver::ResourcePtr twin_of(const apiserver::Registry& registry, std::string_view cluster,
                               const apiserver::ResourceDef& def) {
  if (def.stored_under_group) {
    return registry.find(cluster, *def.stored_under_group, def.plural);
  }
  return def.group.empty() && def.plural == "events"
             ? registry.find(cluster, "events.k8s.io", "events")
             : nullptr;
}

}  // namespace

Expected<const Json*> WriteSubject::namespace_object() {
  if (!namespace_known_) {
    namespace_known_ = true;
    namespace_ = reader_.get(write_.cluster, "", "namespaces", "", request_.ns);
  }
  if (!namespace_) {
    return fail(krm::not_found("", "namespaces", request_.ns));
  }
  return &*namespace_;
}

AdmissionSubject WriteSubject::of(const Json* object, const Json* old) {
  AdmissionSubject out;
  out.operation = request_.operation;
  out.resource = request_.resource;
  out.subresource = request_.subresource;
  out.ns = request_.ns;
  out.name = request_.name;
  out.object = object;
  out.old_object = old;
  out.namespace_labels = [this]() -> Expected<Json> {
    const Expected<const Json*> found = namespace_object();
    if (!found) {
      return fail(found.error().clone());
    }
    const Json* labels = (*found)->at({"metadata", "labels"});
    return labels == nullptr ? Json() : *labels;
  };
  const apiserver::ResourcePtr& own = write_.kind->def;
  for (const apiserver::ResourcePtr& def : {own, twin_of(registry_, write_.cluster, *own)}) {
    for (const apiserver::ResourceVersion& version :
         def == nullptr ? std::vector<apiserver::ResourceVersion>() : def->versions) {
      GroupVersionName other{def->group, version.name, def->plural};
      if (version.served && other != out.resource) {
        out.equivalents.push_back(std::move(other));
      }
    }
  }
  return out;
}

apiserver::ServedKindPtr WriteSubject::kind_of(const GroupVersionName& resource) const {
  const apiserver::ResourcePtr& own = write_.kind->def;
  const apiserver::ResourcePtr def =
      resource.group == own->group ? own : twin_of(registry_, write_.cluster, *own);
  return apiserver::make_served_kind(def, def->version(resource.version));
}

void WriteForms::get(const apiserver::ServedKindPtr& kind,
                     std::function<void(Expected<const Form*>)> done) {
  if (review_.has_one_form) {
    Form& form = forms_[""];
    form.object = review_.object;
    form.old = review_.old;
    done(&form);
    return;
  }
  Form& form = forms_[kind->api_version];
  form.kind = kind;
  convert(
      form.object == nullptr ? review_.object : nullptr, kind,
      [self = shared_from_this(), &form, kind, done](Expected<std::shared_ptr<const Json>> object) {
        if (!object) {
          done(fail(std::move(object.error())));
          return;
        }
        if (*object != nullptr) {
          form.object = std::move(*object);
        }
        self->convert(form.old == nullptr ? self->review_.old : nullptr, kind,
                      [self, &form, done](Expected<std::shared_ptr<const Json>> old) {
                        if (!old) {
                          done(fail(std::move(old.error())));
                          return;
                        }
                        if (*old != nullptr) {
                          form.old = std::move(*old);
                        }
                        done(&form);
                      });
      });
}

void WriteForms::convert(std::shared_ptr<const Json> from, const apiserver::ServedKindPtr& kind,
                         std::function<void(Expected<std::shared_ptr<const Json>>)> done) {
  if (from == nullptr) {
    done(std::shared_ptr<const Json>());
    return;
  }
  write_->convert(*from, kind, [self = shared_from_this(), done](Expected<Json> converted) {
    if (!converted) {
      done(fail(std::move(converted.error())));
      return;
    }
    if (self->hides_cluster_) {
      hide_cluster(*converted);
    }
    done(std::make_shared<const Json>(std::move(*converted)));
  });
}

void WriteForms::set_object(std::shared_ptr<const Json> object) {
  review_.object = std::move(object);
  for (auto& [version, form] : forms_) {
    form.object.reset();
  }
}

}  // namespace kintsugi::kinds
