#include "controlplane/controllers/internal/binding_controller.h"

#include <algorithm>
#include <utility>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/log.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "store/batches.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kExtraPrefix = "extra.apis.kcp.io/";

constexpr std::string_view kDefinitionGroup = "apiextensions.k8s.io";
constexpr std::string_view kDefinitions = "customresourcedefinitions";
constexpr const char* kSweep = "sweep";
constexpr Duration kSweepAfter = seconds(5);  ///< longer than a written status takes to be seen

apiserver::ObjectKey key_of(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), std::string(kApisGroup), std::string(kApiBindings), "",
          std::string(name)};
}

std::string resource_name(std::string_view group, std::string_view plural) {
  return group.empty() ? std::string(plural) : std::string(plural) + "." + std::string(group);
}

void add_name(std::vector<std::string>& list, std::string_view name) {
  if (!name.empty()) {
    list.emplace_back(name);
  }
}

TakenNames names_of(const apiserver::ResourceDef& def) {
  TakenNames out;
  add_name(out.resources, def.plural);
  add_name(out.resources, def.singular);
  out.resources.insert(out.resources.end(), def.short_names.begin(), def.short_names.end());
  add_name(out.kinds, def.kind);
  add_name(out.kinds, def.list_kind);
  return out;
}

TakenNames accepted_names(const Json& crd) {
  TakenNames out;
  const Json* names = crd.at({"status", "acceptedNames"});
  if (names == nullptr) {
    return out;
  }
  add_name(out.resources, names->text({"plural"}));
  add_name(out.resources, names->text({"singular"}));
  if (const Json* list = names->find("shortNames")) {
    for (const Json& one : list->items()) {
      add_name(out.resources, one.as_string());
    }
  }
  add_name(out.kinds, names->text({"kind"}));
  add_name(out.kinds, names->text({"listKind"}));
  return out;
}

/// Whether an export of this identity has the resource, wherever it lives (KK-149).
bool is_offered(const ApiCatalog& catalog, std::string_view group, std::string_view resource,
                std::string_view identity) {
  const std::vector<ExportRef> owners = catalog.exports_with_identity(identity);
  return std::any_of(owners.begin(), owners.end(), [&](const ExportRef& owner) {
    const std::optional<Json> api_export = catalog.get_export(owner);
    const Json* list = api_export ? api_export->at({"spec", "resources"}) : nullptr;
    return list != nullptr &&
           std::any_of(list->items().begin(), list->items().end(), [&](const Json& one) {
             return one.text({"group"}) == group && one.text({"name"}) == resource;
           });
  });
}

}  // namespace

BindingController::BindingController(const apiserver::ControllerContext& context,
                                     const Params& params)
    : apiserver::ControllerBase(context, "kintsugi-binding"), params_(params) {}

void BindingController::start() {
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (change.group == kApisGroup && change.resource == kApiBindings) {
      note(change.cluster, change.name, change.object.get());
      if (change.object != nullptr) {
        queue_.add(key_of(change.cluster, change.name).pack());
      }
    } else if (change.group == kDefinitionGroup && change.resource == kDefinitions) {
      enqueue_cluster(change.cluster, true);
    } else if (leaving_ > 0 && change.object == nullptr && !change.identity.empty()) {
      const auto cluster = clusters_.find(change.cluster);
      for (const auto& [name, known] :
           cluster == clusters_.end() ? decltype(Cluster::bindings)() : cluster->second.bindings) {
        if (known.leaving) {
          queue_.add(key_of(change.cluster, name).pack());
        }
      }
    }
  });
  const auto enqueue = [this](const StringMap<Keys>& index, std::string_view name) {
    if (const auto found = index.find(name); found != index.end()) {
      for (const std::string& key : found->second) {
        queue_.add(key);
      }
    }
  };
  params_.catalog.on_export(alive_.guard([this, enqueue](const ExportRef& ref) {
    enqueue(by_export_, ref.name);
    for (const std::string& key : unapplied_) {  // perhaps what one of them claims
      queue_.add(key);
    }
  }));
  params_.catalog.on_schema(
      alive_.guard([this, enqueue](std::string_view cluster, std::string_view) {
        enqueue(by_export_cluster_, cluster);
      }));
  reader().list(kBoundCluster, kBoundGroup, kApiResourceSchemas, "", [this](const Json& schema) {
    rows_.emplace(schema.text({"metadata", "uid"}));
    return true;
  });
  queue_.add_after(kSweep, kSweepAfter);
}

void BindingController::add_cluster(std::string_view cluster) {
  reader().list(cluster, kApisGroup, kApiBindings, "", [&](const Json& binding) {
    const std::string_view name = binding.text({"metadata", "name"});
    note(cluster, name, &binding);
    queue_.add(key_of(cluster, name).pack());
    return true;
  });
}

void BindingController::remove_cluster(std::string_view cluster) {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, known] : found->second.bindings) {
    names.push_back(name);
  }
  for (const std::string& name : names) {
    forget(cluster, name);
  }
  clusters_.erase(found);
}

void BindingController::forget(std::string_view cluster, std::string_view name) {
  const auto place = clusters_.find(cluster);
  if (place == clusters_.end()) {
    return;
  }
  const auto found = place->second.bindings.find(name);
  if (found == place->second.bindings.end()) {
    return;
  }
  const std::string key = key_of(cluster, name).pack();
  const auto drop = [&key](StringMap<Keys>& index, const std::string& entry) {
    const auto keys = index.find(entry);
    if (keys != index.end() && keys->second.erase(key) > 0 && keys->second.empty()) {
      index.erase(keys);
    }
  };
  drop(by_export_, found->second.export_name);
  drop(by_export_cluster_, found->second.export_cluster);
  unapplied_.erase(key);
  leaving_ -= found->second.leaving ? 1 : 0;
  place->second.bindings.erase(found);
}

void BindingController::note(std::string_view cluster, std::string_view name, const Json* binding) {
  forget(cluster, name);
  const std::string key = key_of(cluster, name).pack();
  Cluster& entry = clusters_[std::string(cluster)];
  if (binding == nullptr) {
    coming_.erase(key);
    std::erase_if(entry.holders, [&](const auto& one) { return one.second == name; });
    enqueue_cluster(cluster, true);
    queue_.add_after(kSweep, kSweepAfter);
    return;
  }
  Known known;
  known.export_name = binding->text({"spec", "reference", "export", "name"});
  known.export_cluster = binding->text({"status", "apiExportClusterName"});
  known.bound = binding->text({"status", "phase"}) == "Bound";
  known.leaving = apiserver::is_deleted(*binding);
  const Json* applied = apiserver::find_condition(*binding, "PermissionClaimsApplied");
  if (applied != nullptr && applied->text({"status"}) == "False") {
    unapplied_.insert(key);
  }
  leaving_ += known.leaving ? 1 : 0;
  if (const Json* list = binding->at({"status", "boundResources"})) {
    for (const Json& resource : list->items()) {
      entry.holders.try_emplace(
          resource_name(resource.text({"group"}), resource.text({"resource"})), name);
      if (const auto coming = coming_.find(key); coming != coming_.end()) {
        coming->second.erase(std::string(resource.text({"schema", "UID"})));
      }
    }
  }
  by_export_[known.export_name].insert(key);
  if (!known.export_cluster.empty()) {
    by_export_cluster_[known.export_cluster].insert(key);
  }
  entry.bindings.insert_or_assign(std::string(name), std::move(known));
}

void BindingController::enqueue_cluster(std::string_view cluster, bool only_unsettled) {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return;
  }
  for (const auto& [name, known] : found->second.bindings) {
    if (!only_unsettled || !known.bound) {
      queue_.add(key_of(cluster, name).pack());
    }
  }
}

std::optional<ResourceHolder> BindingController::take(const apiserver::ObjectKey& key,
                                                      std::string_view group,
                                                      std::string_view plural) {
  const std::string name = resource_name(group, plural);
  auto& holders = clusters_[key.cluster].holders;
  if (const auto holder = holders.find(name); holder != holders.end()) {
    return holder->second == key.name ? std::nullopt
                                      : std::optional(ResourceHolder{holder->second, false});
  }
  if (reader().get(key.cluster, kDefinitionGroup, kDefinitions, "", name)) {
    return ResourceHolder{"", true};
  }
  holders.emplace(name, key.name);
  return std::nullopt;
}

std::string BindingController::names_conflict(const apiserver::ObjectKey& key,
                                              const Json& schema) const {
  const std::string_view group = schema.text({"spec", "group"});
  std::string text;
  params_.bound.visit(key.cluster, [&](const apiserver::ResourcePtr& def, std::string_view name) {
    if (!text.empty() || name == key.name || def->group != group) {
      return;
    }
    const std::string details = find_names_conflict(schema, names_of(*def));
    if (details.empty()) {
      return;
    }
    const std::optional<Json> other = get(key_of(key.cluster, name));
    const Json none = Json::object();
    const Json& binding = other ? *other : none;
    const std::string path(binding.text({"spec", "reference", "export", "path"}));
    const std::string export_name(binding.text({"spec", "reference", "export", "name"}));
    text = "naming conflict with APIBinding " + krm::go_quote(name) + " bound to " +
           (path.empty() ? "local APIExport " + krm::go_quote(export_name)
                         : "APIExport " + path + ":" + export_name) +
           ": " + details;
  });
  if (!text.empty()) {
    return text;
  }
  reader().list(key.cluster, kDefinitionGroup, kDefinitions, "", [&](const Json& crd) {
    if (crd.text({"spec", "group"}) == group) {
      if (std::string details = find_names_conflict(schema, accepted_names(crd));
          !details.empty()) {
        text = "naming conflict with CustomResourceDefinition " +
               krm::go_quote(crd.text({"metadata", "name"})) + ": " + details;
      }
    }
    return text.empty();
  });
  return text;
}

BindingSources BindingController::sources_for(const apiserver::ObjectKey& key) {
  BindingSources out;
  const ApiCatalog& catalog = params_.catalog;
  out.find_export = [&catalog, &key](std::string_view path, std::string_view name) {
    return catalog.find_export(key.cluster, path, name);
  };
  out.get_export = [&catalog](const ExportRef& ref) { return catalog.get_export(ref); };
  out.get_schema = [&catalog](std::string_view cluster, std::string_view name) {
    return catalog.get_schema(cluster, name);
  };
  out.take = [this, &key](std::string_view group, std::string_view plural) {
    return take(key, group, plural);
  };
  out.is_valid = [this](std::string_view uid) { return rows_.count(uid) > 0; };
  out.names_conflict = [this, &key](const Json& schema) { return names_conflict(key, schema); };
  out.is_served = [this, &key](std::string_view group, std::string_view resource,
                               std::string_view identity) {
    const std::string name =
        std::string(resource) + (identity.empty() ? "" : ":" + std::string(identity));
    return context_.registry.find(key.cluster, group, name) != nullptr ||
           context_.registry.find("*", group, name) != nullptr ||
           (!identity.empty() && is_offered(params_.catalog, group, resource, identity));
  };
  return out;
}

void BindingController::process(const std::string& text, Finished finished) {
  if (text == kSweep) {
    sweep_schemas(std::move(finished));
    return;
  }
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> binding = get(key);
  if (!binding) {
    finished(true);
  } else if (apiserver::is_deleted(*binding)) {
    unbind(key, std::move(*binding), std::move(finished));
  } else if (!apiserver::has_finalizer(*binding, krm::kBindingFinalizer)) {
    binding->make({"metadata", "finalizers"}).push_back(Json(krm::kBindingFinalizer));
    update(key, "", std::move(*binding), [finished](Expected<Json> stored) {
      finished(stored || stored.error().code() == Errc::kNotFound);
    });
  } else if (copy_extras(key.cluster, *binding)) {
    update(key, "", std::move(*binding), [finished](Expected<Json> stored) {
      finished(stored || stored.error().code() == Errc::kNotFound);
    });
  } else {
    settle(key, std::move(*binding), std::move(finished));
  }
}

/// Annotations extra.apis.kcp.io/* are those of the export (KK-171). @returns whether they changed.
bool BindingController::copy_extras(std::string_view cluster, Json& binding) const {
  const std::string_view pinned = binding.text({"status", "apiExportClusterName"});
  const auto ref = params_.catalog.find_export(
      cluster, pinned.empty() ? binding.text({"spec", "reference", "export", "path"}) : pinned,
      binding.text({"spec", "reference", "export", "name"}));
  const std::optional<Json> api_export = ref ? params_.catalog.get_export(*ref) : std::nullopt;
  const std::string_view uid = binding.text({"status", "apiExportUID"});
  if (!api_export || (!uid.empty() && uid != api_export->text({"metadata", "uid"}))) {
    return false;
  }
  const auto extras = [](const Json& object) {
    Json out = Json::object();
    const Json* annotations = object.at({"metadata", "annotations"});
    for (const krm::JsonMember& one :
         annotations == nullptr ? Json::Object() : annotations->members()) {
      if (std::string_view(one.key).starts_with(kExtraPrefix)) {
        out[one.key] = one.value;
      }
    }
    return out;
  };
  const Json wanted = extras(*api_export);
  const Json present = extras(binding);
  if (wanted == present) {
    return false;
  }
  Json& annotations = binding.make({"metadata", "annotations"});
  for (const krm::JsonMember& one : present.members()) {
    annotations.erase(one.key);
  }
  for (const krm::JsonMember& one : wanted.members()) {
    annotations[one.key] = one.value;
  }
  return true;
}

void BindingController::settle(const apiserver::ObjectKey& key, Json binding, Finished finished) {
  Json changed = binding;
  std::vector<Json> schemas = settle_binding(changed, key.cluster, sources_for(key));
  const bool all_stored = std::all_of(schemas.begin(), schemas.end(), [this](const Json& schema) {
    return rows_.count(schema.text({"metadata", "uid"})) > 0;
  });
  if (all_stored && changed == binding) {
    finished(true);
    return;
  }
  store_schemas(key, std::move(schemas),
                [this, key, changed = std::move(changed), finished](bool stored) mutable {
                  if (!stored) {
                    finished(false);
                    return;
                  }
                  update(key, "status", std::move(changed), [finished](Expected<Json> written) {
                    finished(written || written.error().code() == Errc::kNotFound);
                  });
                });
}

/// Copies of the schemas, before a status names them.
void BindingController::store_schemas(const apiserver::ObjectKey& key, std::vector<Json> schemas,
                                      std::function<void(bool stored)> done) {
  std::vector<store::Op> ops;
  std::vector<std::string> uids;
  for (Json& schema : schemas) {
    std::string uid = apiserver::uid_of(schema);
    coming_[key.pack()].insert(uid);
    const std::optional<std::string> row = apiserver::object_key(
        apiserver::stored_resource(kBoundGroup, kApiResourceSchemas), kBoundCluster, "", uid);
    if (!row || !rows_.insert(uid).second) {
      continue;
    }
    schema["metadata"].erase("managedFields");
    ops.push_back({store::EventType::kPut, *row, apiserver::encode_stored(schema), std::nullopt});
    uids.push_back(std::move(uid));
  }
  if (ops.empty()) {
    done(true);
    return;
  }
  commit(std::move(ops), [this, uids, done = std::move(done)](bool stored) {
    if (!stored) {
      for (const std::string& uid : uids) {
        rows_.erase(uid);
      }
    }
    done(stored);
  });
}

/// In as many transactions as it takes.
void BindingController::commit(std::vector<store::Op> ops, std::function<void(bool stored)> done) {
  std::vector<store::Op> batch = store::take_batch(ops, params_.store.limits());
  auto rest = std::make_shared<std::vector<store::Op>>(std::move(ops));
  params_.store.commit(std::move(batch),
                       [this, &loop = context_.loop, alive = alive_.weak(), rest,
                        done = std::move(done)](Expected<store::CommitResult> result) {
                         loop.post([this, alive, rest, done, stored = result && !result->conflict] {
                           if (!alive) {
                             return;
                           }
                           if (stored && !rest->empty()) {
                             commit(std::move(*rest), done);
                           } else {
                             done(stored);
                           }
                         });
                       });
}

/// Removes copies of schemas that no binding names.
void BindingController::sweep_schemas(Finished finished) {
  std::vector<store::Op> ops;
  for (auto uid = rows_.begin(); uid != rows_.end();) {
    const bool comes = std::any_of(coming_.begin(), coming_.end(),
                                   [&](const auto& one) { return one.second.count(*uid) > 0; });
    if (comes || params_.bound.uses_schema(*uid)) {
      ++uid;
      continue;
    }
    if (const std::optional<std::string> row =
            apiserver::object_key(apiserver::stored_resource(kBoundGroup, kApiResourceSchemas),
                                  kBoundCluster, "", *uid)) {
      ops.push_back({store::EventType::kDelete, *row, {}, std::nullopt});
    }
    uid = rows_.erase(uid);
  }
  if (ops.empty()) {
    finished(true);
    return;
  }
  commit(std::move(ops), [finished = std::move(finished)](bool) { finished(true); });
}

}  // namespace kintsugi::controlplane
