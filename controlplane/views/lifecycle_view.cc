#include "controlplane/views/lifecycle_view.h"

#include <algorithm>
#include <utility>

#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/names.h"
#include "krm/go_text.h"
#include "krm/labels.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kMostViews = 1024;  // that are kept while nobody uses them

constexpr std::string_view kWhere = "LogicalCluster ";  // of texts about who made it

bool is_logical_clusters(std::string_view group, std::string_view resource) {
  return group == kCoreGroup && resource == kLogicalClusters;
}

/// logicalclusters with fewer verbs.
apiserver::ResourcePtr only_read(const apiserver::ResourceDef& whole) {
  apiserver::ResourceDef def = whole;
  def.verbs = {"get", "list", "watch"};
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

/// As whom one works in a cluster that was made by this user (KK-352): his name with what every
/// user has, in this cluster alone. Groups and extras that the system gives meaning to are no
/// facts: a creator with system:masters is an ordinary user.
auth::UserInfo creator_in(std::string_view cluster, const Json& creator) {
  auth::UserInfo user;
  user.name = creator.text({"username"});
  user.uid = creator.text({"uid"});
  user.groups = {std::string(auth::kGroupAuthenticated)};
  bool dropped = false;
  if (const Json* groups = creator.find("groups"); groups != nullptr && groups->is_array()) {
    for (const Json& group : groups->items()) {
      const std::string_view name = group.as_string();
      if (!name.starts_with("system:")) {
        user.groups.emplace_back(name);
      }
      dropped = dropped || name == auth::kGroupMasters || name.starts_with("system:kcp:");
    }
  }
  if (const Json* extra = creator.find("extra"); extra != nullptr && extra->is_object()) {
    for (const krm::JsonMember& member : extra->members()) {
      if (is_kcp_extra(member.key)) {
        dropped = true;
        continue;
      }
      std::vector<std::string> values;
      for (const Json& value : member.value.items()) {
        values.emplace_back(value.as_string());
      }
      user.extra.emplace_back(std::string(std::string_view(member.key)), std::move(values));
    }
  }
  user.extra.emplace_back(std::string(auth::kExtraScopes),
                          std::vector<std::string>{"cluster:" + std::string(cluster)});
  if (dropped) {
    note_untrusted(UntrustedValue::kCreator, cluster, user.name, "groups or extras of the system");
  }
  return user;
}

/// What the status of a binding or export says is the server's own (KK-311).
bool is_server_status(const auth::Attributes& attributes) {
  return attributes.is_resource && attributes.group == kApisGroup &&
         attributes.subresource == "status" &&
         (attributes.resource == kApiBindings || attributes.resource == kApiExports);
}

/// What a type's permissions never grant, whatever they say (KK-074).
bool is_never_granted(const auth::Attributes& attributes) {
  return is_server_status(attributes) || attributes.verb == "impersonate" ||
         attributes.verb == "escalate" || attributes.verb == "bind" ||
         (attributes.is_resource && is_logical_clusters(attributes.group, attributes.resource));
}

/// "core/secrets (name) in namespace ns", or the path.
std::string describe(const auth::Attributes& attributes) {
  if (!attributes.is_resource) {
    return attributes.path;
  }
  std::string text = (attributes.group.empty() ? "core" : attributes.group) + "/";
  text += attributes.resource;
  if (!attributes.subresource.empty()) {
    text += "/" + attributes.subresource;
  }
  if (!attributes.name.empty()) {
    text += " (" + attributes.name + ")";
  }
  if (!attributes.ns.empty()) {
    text += " in namespace " + attributes.ns;
  }
  return text;
}

}  // namespace

LifecycleRegistry::LifecycleRegistry(const apiserver::Registry& clusters) : clusters_(clusters) {
  if (const apiserver::ResourcePtr whole = clusters.find("*", kCoreGroup, kLogicalClusters)) {
    clusters_kind_ = only_read(*whole);
  }
}

apiserver::ResourcePtr LifecycleRegistry::find(std::string_view cluster, std::string_view group,
                                               std::string_view resource) const {
  if (is_logical_clusters(group, resource)) {
    return clusters_kind_;
  }
  return cluster == "*" ? nullptr : clusters_.find(cluster, group, resource);
}

std::vector<apiserver::ResourcePtr> LifecycleRegistry::all(std::string_view cluster) const {
  if (cluster == "*") {
    return {clusters_kind_};
  }
  std::vector<apiserver::ResourcePtr> kinds = clusters_.all(cluster);
  for (apiserver::ResourcePtr& kind : kinds) {
    if (is_logical_clusters(kind->group, kind->plural)) {
      kind = clusters_kind_;
    }
  }
  return kinds;
}

std::uint64_t LifecycleRegistry::generation(std::string_view cluster) const {
  return cluster == "*" ? 1 : clusters_.generation(cluster);
}

LifecycleView::LifecycleView(const LifecycleViewContext& context, const LifecycleRegistry& registry,
                             Lifecycle lifecycle, std::string type_cluster, std::string type_name)
    : context_(context),
      registry_(registry),
      lifecycle_(lifecycle),
      type_cluster_(std::move(type_cluster)),
      type_name_(std::move(type_name)),
      name_(type_cluster_.empty() ? type_name_ : type_cluster_ + ":" + type_name_) {
  const auto select = [](const Json& labels, krm::Selector& out) {
    if (Expected<krm::Selector> selector =
            krm::Selector::from_json(Json::object({{"matchLabels", labels}}))) {
      out = std::move(*selector);
    }
  };
  const LifecycleLabel label = lifecycle_label(lifecycle, name_);
  Json labels = Json::object({{label.key, label.value}});
  if (lifecycle == Lifecycle::kTerminating) {
    select(labels, known_);
  }
  labels[krm::kPhaseLabel] = lifecycle_names(lifecycle).phase;
  select(labels, waiting_);
}

krm::Selector LifecycleView::visible(std::string_view, const apiserver::ResourceDef& def) const {
  return is_logical_clusters(def.group, def.plural) ? waiting_ : krm::Selector();
}

krm::Selector LifecycleView::known(std::string_view, const apiserver::ResourceDef& def) const {
  return is_logical_clusters(def.group, def.plural) ? known_ : krm::Selector();
}

Expected<void> LifecycleView::prepare(const apiserver::WriteContext&,
                                      const apiserver::ResourceDef& def, Json& object,
                                      const Json* old) const {
  if (!is_logical_clusters(def.group, def.plural) || old == nullptr) {
    return {};
  }
  return check_only_removes(object, *old, lifecycle_, name_);
}

bool LifecycleView::is_content(const auth::Attributes& attributes) const {
  return attributes.cluster != "*" &&
         !(attributes.is_resource && is_logical_clusters(attributes.group, attributes.resource));
}

/// How one may work inside a cluster that waits.
struct LifecycleView::Content {
  kinds::PolicyRules rules;             ///< as oneself, where there are any
  std::optional<auth::UserInfo> owner;  ///< else as him
};

Expected<LifecycleView::Content> LifecycleView::content(const auth::Attributes& attributes) const {
  const LifecycleNames& names = lifecycle_names(lifecycle_);
  const apiserver::ObjectReader& reader = context_.reader();
  const std::optional<Json> cluster =
      reader.get(attributes.cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!cluster || !waits_for(*cluster, lifecycle_, name_)) {
    return fail(Errc::kForbidden, std::string(names.one) + " " + krm::go_quote(name_) +
                                      " cannot access this workspace");
  }
  const std::optional<FoundType> type = context_.types.find(reader, type_cluster_, type_name_);
  if (!type) {
    return fail(Errc::kUnavailable,
                std::string(names.one) + " " + krm::go_quote(name_) +
                    ": WorkspaceType not found in local or cached indexer; refusing to fall back "
                    "to owner impersonation: workspacetypes.tenancy.kcp.io " +
                    krm::go_quote(name_) + " not found");
  }
  Content content;
  const Json* permissions = type->object.at({"spec", names.permissions});
  if (permissions != nullptr && permissions->size() > 0) {
    content.rules = kinds::parse_rules(Json::object({{"rules", *permissions}}));
    return content;
  }
  const std::string where =
      std::string(kWhere) + attributes.cluster + "|" + std::string(kClusterName);
  const Json* creator = cluster->at({"spec", "createdBy"});
  if (creator == nullptr) {
    return fail(Errc::kInternal, where + " had no createdBy recorded");
  }
  if (creator->text({"username"}).empty()) {
    return fail(Errc::kForbidden, where + " had no createdBy username recorded");
  }
  content.owner = creator_in(attributes.cluster, *creator);
  return content;
}

bool LifecycleView::is_plain(const Error& error) const {
  return error.message().starts_with(kWhere) ||
         error.message().starts_with(lifecycle_names(lifecycle_).one);
}

Expected<auth::Decision> LifecycleView::decide(const auth::Attributes& attributes) const {
  const auth::Decision granted{true, "access granted"};
  if (!is_content(attributes)) {
    return granted;
  }
  Expected<Content> found = content(attributes);
  if (!found) {
    return fail(std::move(found.error()));
  }
  if (found->owner) {
    auth::Attributes as_owner = attributes;
    as_owner.user = *found->owner;
    if (is_server_status(attributes) || attributes.verb == "impersonate") {
      return fail(auth::denied(as_owner, {false, "access denied"}));
    }
    auth::Decision decision = context_.rbac.decide(as_owner);
    if (!decision.allowed) {
      return fail(auth::denied(as_owner, decision));
    }
    return decision;
  }
  if (!is_never_granted(attributes) &&
      std::any_of(found->rules.begin(), found->rules.end(), [&](const kinds::PolicyRule& rule) {
        return kinds::rule_allows(rule, attributes);
      })) {
    return granted;
  }
  const LifecycleNames& names = lifecycle_names(lifecycle_);
  return fail(Errc::kForbidden, std::string(names.one) + " " + krm::go_quote(name_) +
                                    " denied by " + std::string(names.permissions) +
                                    ": no rule allows " + attributes.verb + " on " +
                                    describe(attributes));
}

void LifecycleView::authorize(const auth::Attributes& attributes, Done done) {
  if (type_cluster_.empty()) {
    if (attributes.user.in_group(auth::kGroupMasters)) {
      done(decide(attributes));
    } else {
      done(auth::Decision{false, "access denied"});
    }
    return;
  }
  auth::Attributes use;
  use.user = attributes.user;
  use.cluster = type_cluster_;
  use.verb = lifecycle_names(lifecycle_).verb;
  use.group = kTenancyGroup;
  use.version = "v1alpha1";
  use.resource = kWorkspaceTypes;
  use.name = type_name_;
  context_.authorizer.authorize(use, [self = shared_from_this(), attributes,
                                      done = std::move(done)](Expected<auth::Decision> decision) {
    if (!decision || !decision->allowed) {
      done(std::move(decision));
    } else {
      done(self->decide(attributes));
    }
  });
}

std::optional<auth::UserInfo> LifecycleView::acts_as(const auth::Attributes& attributes) const {
  if (!is_content(attributes)) {
    return std::nullopt;
  }
  Expected<Content> found = content(attributes);
  return found ? std::move(found->owner) : std::nullopt;
}

LifecycleViews::LifecycleViews(LifecycleViewContext context)
    : context_(std::move(context)), registry_(context_.registry) {}

void LifecycleViews::add_to(ViewResolver& resolver) {
  for (const Lifecycle lifecycle : {Lifecycle::kInitializing, Lifecycle::kTerminating}) {
    resolver.add(
        std::string(lifecycle_names(lifecycle).virtual_workspace),
        [this, lifecycle](const ViewRequest& request) { return resolve(lifecycle, request); });
  }
}

void LifecycleViews::start(apiserver::ApiServer& server) {
  subscription_ = server.on_change(
      kCoreGroup, kLogicalClusters, [&server](const apiserver::ApiServer::Change& change) {
        if (change.previous == nullptr) {
          return;
        }
        for (const Lifecycle lifecycle : {Lifecycle::kInitializing, Lifecycle::kTerminating}) {
          for (const std::string& name : waiting_names(*change.previous, lifecycle)) {
            const bool waited = waits_for(*change.previous, lifecycle, name);
            if (waited && (!change.object || !waits_for(*change.object, lifecycle, name))) {
              server.review_watches(std::string_view(name).substr(0, name.rfind(':')));
            }
          }
        }
      });
}

Expected<std::optional<apiserver::ClusterTarget>> LifecycleViews::resolve(
    Lifecycle lifecycle, const ViewRequest& request) {
  const std::optional<ViewPath> path = split_view_path(request, 1);
  if (!path) {
    return std::nullopt;
  }
  const std::string_view name = path->segments.front();
  const std::size_t colon = name.rfind(':');
  const bool is_name = colon != std::string_view::npos && colon > 0 && colon + 1 < name.size();
  if (!is_name && !request.user.in_group(auth::kGroupMasters)) {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  // Other than in the cluster itself one may still create something while it is being deleted.
  const ClusterInfo* info = context_.index.find_now(path->cluster);
  if (info != nullptr && !info->deleting) {
    if (Expected<void> usable = check_cluster_state(*info, request.head, path->api_path); !usable) {
      return fail(std::move(usable.error()));
    }
  }
  return apiserver::ClusterTarget{
      path->cluster, path->api_root, path->api_path,
      is_name ? view(lifecycle, name.substr(0, colon), name.substr(colon + 1))
              : view(lifecycle, {}, name)};
}

std::shared_ptr<LifecycleView> LifecycleViews::view(Lifecycle lifecycle,
                                                    std::string_view type_cluster,
                                                    std::string_view type_name) {
  const std::string key = std::string(lifecycle_names(lifecycle).virtual_workspace) + "/" +
                          std::string(type_cluster) + ":" + std::string(type_name);
  if (const auto known = views_.find(key); known != views_.end()) {
    return known->second;
  }
  if (views_.size() >= kMostViews) {
    std::erase_if(views_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  auto made = std::make_shared<LifecycleView>(context_, registry_, lifecycle,
                                              std::string(type_cluster), std::string(type_name));
  views_.emplace(key, made);
  return made;
}

}  // namespace kintsugi::controlplane
