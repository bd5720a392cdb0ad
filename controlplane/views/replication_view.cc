#include "controlplane/views/replication_view.h"

#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "auth/own_roles.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/internal/names.h"
#include "controlplane/views/internal/export_rights.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kMostOfferViews = 1'024;  // then those are looked for that nobody uses
constexpr std::string_view kNoWrites =
    "write access to Replication virtual workspace is not allowed: access denied";

bool only_reads(std::string_view verb) {
  return verb == "get" || verb == "list" || verb == "watch";
}

/// The definition with the version that is offered as the stored one.
apiserver::ResourcePtr stored_as_copies(const apiserver::ResourcePtr& def,
                                        const CachedResource& resource) {
  if (def == nullptr || def->version(resource.version) == nullptr) {
    return nullptr;
  }
  auto out = only_for_reading(*def);
  out->identity.clear();
  out->stored_under_group = copies_group(resource);
  for (apiserver::ResourceVersion& version : out->versions) {
    version.storage = version.name == resource.version;
  }
  return out;
}

}  // namespace

class ReplicationViews::One final : public apiserver::View,
                                    private apiserver::Registry,
                                    private auth::Authorizer {
 public:
  One(const Sources& sources, Offer offer, ExportRef ref, std::string consumer, bool in_services)
      : sources_(sources),
        offer_(std::move(offer)),
        ref_(std::move(ref)),
        consumer_(std::move(consumer)),
        in_services_(in_services) {}

  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

  [[nodiscard]] const apiserver::Registry& registry() const override { return *this; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return *this; }
  [[nodiscard]] std::string_view rights_cluster() const override {
    return in_services_ ? std::string_view(ref_.cluster) : std::string_view(consumer_);
  }
  [[nodiscard]] krm::Selector visible(std::string_view,
                                      const apiserver::ResourceDef&) const override {
    return offer_.selector;
  }
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext&,
                                       const apiserver::ResourceDef&, Json&,
                                       const Json*) const override {
    return fail(Errc::kMethodNotAllowed);
  }

 private:
  // Registry
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view, std::string_view group,
                                            std::string_view resource) const override {
    return group == offer_.def->group && resource == offer_.def->plural ? offer_.def : nullptr;
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view) const override {
    return {offer_.def};
  }
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return 1; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  // Authorizer
  void authorize(const auth::Attributes& attributes, Done done) override {
    const auto say = [&](bool allowed, std::string_view why) {
      done(auth::Decision{allowed, std::string(why)});
    };
    if (!only_reads(attributes.verb)) {
      say(false, kNoWrites);
    } else if (ref_.cluster.empty()) {  // other shards
      const bool is_shard = attributes.user.in_group(auth::kGroupOwnShard) ||
                            attributes.user.in_group(auth::kGroupMasters);
      say(is_shard, is_shard ? "access granted" : "access denied");
    } else if (in_services_ && !consumer_.empty() && !is_bound()) {
      say(false, "access denied");
    } else if (!in_services_) {
      auth::Attributes asked = attributes;
      asked.cluster = consumer_;
      sources_.authorizer.authorize(
          asked, [missing = offer_.missing, resource = offer_.def->qualified_name(),
                  done = std::move(done)](Expected<auth::Decision> decision) {
            if (missing && decision && decision->allowed) {
              done(fail(not_offered(resource)));
            } else {
              done(std::move(decision));
            }
          });
    } else if (const bool allowed = has_content(sources_.rbac, ref_, attributes);
               allowed && offer_.missing) {
      done(fail(not_offered(offer_.def->qualified_name())));
    } else {
      say(allowed, allowed ? "access granted" : "access denied");
    }
  }
  [[nodiscard]] static Error not_offered(const std::string& resource) {
    return krm::unavailable("the objects of " + resource + " are not offered to this shard", 1);
  }
  /// The cluster has bound the resource of this export.
  [[nodiscard]] bool is_bound() const {
    const BindingInfo* binding = sources_.bindings.find(consumer_, ref_);
    return binding != nullptr && binding->has_bound(offer_.def->group, offer_.def->plural);
  }

  const Sources& sources_;
  const Offer offer_;
  const ExportRef ref_;  // cluster "": for other shards
  const std::string consumer_;
  const bool in_services_;
};

void ReplicationViews::start(apiserver::ApiServer& server) {
  server_ = &server;
  for (const std::string_view group : {kCacheGroup, kinds::kReplicaGroup}) {
    for (const std::string_view resource : {kCachedResources, kCachedSlices}) {
      subscriptions_.push_back(server.on_change(
          group, resource,
          [this](const apiserver::ApiServer::Change& change) { offers_changed(change.cluster); }));
    }
  }
  subscriptions_.push_back(server.on_change(kApisGroup, kApiBindings,
                                            [this](const apiserver::ApiServer::Change& change) {
                                              if (!views_.empty()) {
                                                server_->review_watches(change.cluster);
                                              }
                                            }));
}

/// Views are made for one state of what is offered.
void ReplicationViews::offers_changed(std::string_view cluster) {
  std::vector<std::shared_ptr<One>> ending;
  for (const auto& [key, known] : views_) {
    std::shared_ptr<One> view = known.lock();
    if (view != nullptr && view->offer().cluster == cluster) {
      ending.push_back(std::move(view));
    }
  }
  for (const std::shared_ptr<One>& view : ending) {
    const Offer& before = view->offer();
    const auto found = cached_entry(server_->reader(), kCachedResources, cluster, before.name);
    const Json* selector = found ? found->object.at({"spec", "labelSelector"}) : nullptr;
    Expected<krm::Selector> now =
        selector == nullptr ? krm::Selector() : krm::Selector::from_json(*selector);
    const bool same = found && read_cached_resource(found->object) == before.resource &&
                      (!found->is_own || (now && *now == before.selector));
    if (!same) {
      server_->end_watches(*view, before.def->group, before.def->plural);
    }
  }
}

std::optional<ReplicationViews::Offer> ReplicationViews::read_offer(
    std::string_view cluster, std::string_view name, const VirtualResource* wanted) const {
  const std::optional<CachedEntry> entry =
      cached_entry(server_->reader(), kCachedResources, cluster, name);
  if (!entry) {
    return std::nullopt;
  }
  Offer out{std::string(cluster), std::string(name), read_cached_resource(entry->object), {}, {}};
  const CachedResource& resource = out.resource;
  if (is_never_cached(resource.group, resource.plural)) {
    return std::nullopt;
  }
  if (wanted != nullptr && (wanted->group != resource.group || wanted->plural != resource.plural ||
                            wanted->identity != entry->object.text({"status", "identityHash"}))) {
    return std::nullopt;
  }
  if (!entry->is_own) {
    const std::optional<Json> schema =
        wanted == nullptr ? std::nullopt : sources_.catalog.get_schema(cluster, wanted->schema);
    out.def = schema ? stored_as_copies(bound_resource(*schema, ""), resource) : nullptr;
  } else if (const apiserver::ResourcePtr def =
                 sources_.registry.find(cluster, resource.group, resource.plural);
             def != nullptr && !def->namespaced && def->version(resource.version) != nullptr) {
    out.def = only_for_reading(*def);
    if (const Json* given = entry->object.at({"spec", "labelSelector"})) {
      Expected<krm::Selector> selector = krm::Selector::from_json(*given);
      if (!selector) {
        return std::nullopt;
      }
      out.selector = std::move(*selector);
    }
  }
  return out.def == nullptr ? std::nullopt : std::optional<Offer>(std::move(out));
}

std::optional<ReplicationViews::Offer> ReplicationViews::own_offer(std::string_view cluster,
                                                                   std::string_view name) const {
  const std::optional<CachedEntry> entry =
      cached_entry(server_->reader(), kCachedResources, cluster, name);
  return entry && entry->is_own ? read_offer(cluster, name, nullptr) : std::nullopt;
}

std::optional<ReplicationViews::Offer> ReplicationViews::offer_of(
    const ExportRef& ref, const VirtualResource& resource) const {
  const std::optional<CachedEntry> slice =
      cached_entry(server_->reader(), kCachedSlices, ref.cluster, resource.slice);
  if (!slice || slice->object.text({"spec", "export", "name"}) != ref.name) {
    return std::nullopt;
  }
  const std::string path = sources_.catalog.path_of(ref.cluster);
  for (const char* member : {"clusterCachedResource", "export"}) {
    const std::string_view given = slice->object.text({"spec", member, "path"});
    if (!given.empty() && given != ref.cluster && given != path) {
      return std::nullopt;
    }
  }
  return read_offer(ref.cluster, slice->object.text({"spec", "clusterCachedResource", "name"}),
                    &resource);
}

std::shared_ptr<ReplicationViews::One> ReplicationViews::view(Offer offer, const ExportRef& ref,
                                                              std::string consumer,
                                                              bool in_services) {
  // Definitions are made anew for each request; one view has the first of them.
  const std::string key = ref.cluster + "/" + ref.name + "/" + offer.cluster + "/" + offer.name +
                          "/" + offer.resource.uid + "/" + offer.resource.version + "/" +
                          offer.selector.to_string() + "/" + consumer + (in_services ? "/s" : "/c");
  if (const auto known = views_.find(key); known != views_.end()) {
    if (std::shared_ptr<One> found = known->second.lock()) {
      return found;
    }
  }
  if (views_.size() >= kMostOfferViews) {
    std::erase_if(views_, [](const auto& one) { return one.second.expired(); });
  }
  auto made =
      std::make_shared<One>(sources_, std::move(offer), ref, std::move(consumer), in_services);
  views_.insert_or_assign(key, made);
  return made;
}

Expected<std::optional<apiserver::ClusterTarget>> ReplicationViews::resolve(
    const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 2);
  if (!path) {
    return std::nullopt;
  }
  const std::string& cluster = path->segments[0];
  const std::string& segment = path->segments[1];
  ExportRef ref;
  std::optional<Offer> offer;
  if (segment.starts_with(kOfferSegment)) {
    offer = own_offer(cluster, std::string_view(segment).substr(kOfferSegment.size()));
  } else if (const auto slice = cached_entry(server_->reader(), kCachedSlices, cluster, segment)) {
    ref = {cluster, std::string(slice->object.text({"spec", "export", "name"}))};
    if (const VirtualResource* resource = sources_.virtuals.in_slice(ref, segment)) {
      offer = offer_of(ref, *resource);
    }
  }
  if (!offer) {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  std::string consumer = path->cluster == "*" ? "" : path->cluster;
  if (const ClusterInfo* info = sources_.clusters.find(consumer)) {
    if (Expected<void> open = check_cluster_state(*info, request.head, path->api_path); !open) {
      return fail(std::move(open.error()));
    }
  }
  std::string served = offer->cluster;
  return apiserver::ClusterTarget{std::move(served), std::move(path->api_root), path->api_path,
                                  view(std::move(*offer), ref, std::move(consumer), true)};
}

apiserver::ClusterResolver ReplicationViews::wrap(apiserver::ClusterResolver clusters) {
  return [this, clusters = std::move(clusters)](
             const http::RequestHead& head,
             const auth::UserInfo& user) -> Expected<std::optional<apiserver::ClusterTarget>> {
    Expected<std::optional<apiserver::ClusterTarget>> target = clusters(head, user);
    if (!target || !*target || sources_.virtuals.empty() || (*target)->view != nullptr) {
      return target;
    }
    const krm::RequestInfo info = krm::parse_request_info(head.method, (*target)->rest);
    ExportRef ref;
    const VirtualResource* resource =
        info.is_resource ? sources_.virtuals.bound((*target)->name, info.group, info.resource, ref)
                         : nullptr;
    if (resource == nullptr) {
      return target;
    }
    std::optional<Offer> offer = offer_or_none(ref, *resource, sources_.registry, (*target)->name);
    if (!offer) {
      return target;
    }
    std::string consumer = std::exchange((*target)->name, offer->cluster);
    (*target)->view = view(std::move(*offer), ref, std::move(consumer), false);
    return target;
  };
}

std::optional<ReplicationViews::Offer> ReplicationViews::offer_or_none(
    const ExportRef& ref, const VirtualResource& resource, const apiserver::Registry& registry,
    std::string_view cluster) const {
  if (std::optional<Offer> offer = offer_of(ref, resource)) {
    return offer;
  }
  Offer none{std::string(cluster), "", {}, {}, {}, true};
  none.def = registry.find(cluster, resource.group, resource.plural);
  return none.def == nullptr ? std::nullopt : std::optional<Offer>(std::move(none));
}

ViewFunction ReplicationViews::wrap_exports(ViewFunction exports) {
  return [this, exports = std::move(exports)](
             const ViewRequest& request) -> Expected<std::optional<apiserver::ClusterTarget>> {
    Expected<std::optional<apiserver::ClusterTarget>> target = exports(request);
    if (!target || !*target || sources_.virtuals.empty()) {
      return target;
    }
    const bool everywhere = (*target)->name == "*";
    const std::optional<ViewPath> path = split_view_path(request, 2);
    const krm::RequestInfo info = krm::parse_request_info(request.head.method, (*target)->rest);
    const ExportRef ref = path ? ExportRef{path->segments[0], path->segments[1]} : ExportRef();
    const VirtualResource* resource =
        info.is_resource ? sources_.virtuals.find(ref, info.group, info.resource) : nullptr;
    // Over all clusters one shard shows them: where the offer is, so that nobody sees them twice.
    if (resource == nullptr || (everywhere && sources_.clusters.find(ref.cluster) == nullptr)) {
      return target;
    }
    std::optional<Offer> offer =
        offer_or_none(ref, *resource, (*target)->view->registry(), (*target)->name);
    if (!offer) {
      return target;
    }
    std::string consumer = std::exchange((*target)->name, offer->cluster);
    if (everywhere) {
      consumer.clear();
    }
    (*target)->view = view(std::move(*offer), ref, std::move(consumer), true);
    return target;
  };
}

}  // namespace kintsugi::controlplane
