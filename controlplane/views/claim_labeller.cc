#include "controlplane/views/claim_labeller.h"

#include <optional>
#include <utility>

#include "controlplane/internal/names.h"
#include "controlplane/views/claim_labels.h"

namespace kintsugi::controlplane {

using krm::Json;

ClaimLabeller::ClaimLabeller(const apiserver::ControllerContext& context, BindingIndex& bindings,
                             IdentityCheck in_root)
    : apiserver::ControllerBase(context, "kintsugi-claims"),
      bindings_(bindings),
      in_root_(std::move(in_root)) {}

void ClaimLabeller::start() {
  bindings_.listen(alive_.guard(
      [this](const BindingInfo* now, const BindingInfo* before) { on_binding(now, before); }));
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (change.object == nullptr || change.cluster.empty()) {
      return;
    }
    const apiserver::ObjectKey key{change.cluster, change.group, change.resource, change.ns,
                                   change.name};
    const bool is_binding = change.group == kApisGroup && change.resource == kApiBindings;
    if (!is_right(key, change.identity, is_binding ? *change.object : change.object.meta())) {
      queue_.add(key.pack());
    }
  });
}

void ClaimLabeller::add_cluster(std::string_view cluster) {
  look_at(cluster, kApisGroup, kApiBindings);
  bindings_.visit(cluster, [&](const BindingInfo& binding) { on_binding(&binding, nullptr); });
}

void ClaimLabeller::on_binding(const BindingInfo* now, const BindingInfo* before) {
  if (now != nullptr && before != nullptr && now->claims == before->claims &&
      now->target == before->target) {
    return;
  }
  const BindingInfo& either = now == nullptr ? *before : *now;
  if (now != nullptr && (before == nullptr || !(before->target == now->target))) {
    look_at(either.cluster, kApisGroup, kApiBindings);
  }
  for (const BindingInfo* binding : {now, before}) {
    if (binding == nullptr) {
      continue;
    }
    for (const PermissionClaim& claim : binding->claims) {
      look_at(either.cluster, claimed_group(claim.group, claim.resource), claim.resource);
    }
  }
}

void ClaimLabeller::look_at(std::string_view cluster, std::string_view group,
                            std::string_view resource) {
  queue_.add(
      apiserver::ObjectKey{std::string(cluster), std::string(group), std::string(resource), "", ""}
          .pack());
}

bool ClaimLabeller::is_right(const apiserver::ObjectKey& key, std::string_view identity,
                             const Json& object) const {
  return has_claim_labels(bindings_, in_root_, key.cluster, {key.group, key.resource, identity},
                          object);
}

void ClaimLabeller::queue_wrong(const apiserver::ObjectKey& collection) {
  const apiserver::ResourcePtr def =
      context_.registry.find(collection.cluster, collection.group, collection.resource);
  if (def == nullptr || def->virtual_create_only) {
    return;
  }
  reader().list(collection.cluster, collection.group, collection.resource, "",
                [&](const Json& object) {
                  apiserver::ObjectKey key = collection;
                  key.ns = object.text({"metadata", "namespace"});
                  key.name = object.text({"metadata", "name"});
                  if (!is_right(key, def->identity, object)) {
                    queue_.add(key.pack());
                  }
                  return true;
                });
}

void ClaimLabeller::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  if (key.name.empty()) {
    queue_wrong(key);
    finished(true);
    return;
  }
  const apiserver::ResourcePtr def = context_.registry.find(key.cluster, key.group, key.resource);
  std::optional<Json> object = def == nullptr ? std::nullopt : get(key);
  if (!object || is_right(key, def->identity, *object)) {
    finished(true);
    return;
  }
  update(key, "", std::move(*object), [finished = std::move(finished)](Expected<Json> stored) {
    finished(stored || stored.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::controlplane
