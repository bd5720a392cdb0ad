#include "controlplane/views/schema_view.h"

#include <utility>
#include <vector>

#include "controlplane/catalog/bound_schema.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kOnlyRead =
    "only read-only access is allowed to apiresourceschemas: access denied";
constexpr std::size_t kMostSchemaViews = 1'024;  // that nobody uses are looked for beyond this

/// APIResourceSchemas, read where the copies of those that are bound lie.
const apiserver::ResourcePtr& bound_schema_kind() {
  static const auto& kind = *new apiserver::ResourcePtr([] {
    auto def = std::make_shared<apiserver::ResourceDef>(*api_resource_schema_kind());
    def->verbs = {"get", "list", "watch"};
    def->subresources.clear();
    def->hooks = {};
    def->stored_under_group = std::string(kBoundGroup);
    return def;
  }());
  return kind;
}

using SchemaNames = std::shared_ptr<const apiserver::View::Names>;

}  // namespace

class SchemaViews::One final : public apiserver::View,
                               private apiserver::Registry,
                               private auth::Authorizer {
 public:
  One(const Sources& sources, std::string cluster)
      : sources_(sources), cluster_(std::move(cluster)), names_(read_names()) {}

  /// @returns whether it shows others than before.
  bool reload() {
    SchemaNames now = read_names();
    const bool changed = *now != *names_;
    names_ = std::move(now);
    return changed;
  }

  [[nodiscard]] const apiserver::Registry& registry() const override { return *this; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return *this; }
  [[nodiscard]] std::string_view rights_cluster() const override { return cluster_; }
  [[nodiscard]] krm::Selector visible(std::string_view,
                                      const apiserver::ResourceDef&) const override {
    return {};
  }
  [[nodiscard]] SchemaNames names(std::string_view, const apiserver::ResourceDef&) const override {
    return names_;
  }
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext&,
                                       const apiserver::ResourceDef&, krm::Json&,
                                       const krm::Json*) const override {
    return fail(Errc::kMethodNotAllowed);
  }

 private:
  // Registry
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view, std::string_view group,
                                            std::string_view resource) const override {
    return group == kApisGroup && resource == kApiResourceSchemas ? bound_schema_kind() : nullptr;
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view) const override {
    return {bound_schema_kind()};
  }
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return 1; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  // Authorizer
  void authorize(const auth::Attributes& attributes, Done done) override {
    if (attributes.verb != "get" && attributes.verb != "list" && attributes.verb != "watch") {
      done(auth::Decision{false, std::string(kOnlyRead)});
      return;
    }
    auth::Attributes asked;
    asked.user = attributes.user;
    asked.cluster = cluster_;
    asked.verb = "get";
    asked.group = kApisGroup;
    asked.version = "v1alpha2";
    asked.resource = kApiBindings;
    sources_.authorizer.authorize(
        asked, [done = std::move(done)](Expected<auth::Decision> decision) {
          if (decision) {
            decision->reason = decision->allowed ? "access granted" : "access denied";
          }
          done(std::move(decision));
        });
  }

  [[nodiscard]] SchemaNames read_names() const {
    auto out = std::make_shared<apiserver::View::Names>();
    sources_.bound.visit_schemas(
        cluster_, [&](std::string_view uid, std::string_view name) { out->emplace(uid, name); });
    return out;
  }

  const Sources& sources_;
  std::string cluster_;
  SchemaNames names_;
};

void SchemaViews::start(apiserver::ApiServer& server) {
  server_ = &server;
  subscription_ = server.on_change(
      kApisGroup, kApiBindings,
      [this](const apiserver::ApiServer::Change& change) { bindings_changed(change.cluster); });
}

void SchemaViews::bindings_changed(std::string_view cluster) {
  const auto found = views_.find(cluster);
  const std::shared_ptr<One> view = found == views_.end() ? nullptr : found->second.lock();
  if (view != nullptr && view->reload()) {
    server_->end_watches(*view, kApisGroup, kApiResourceSchemas);
  }
}

Expected<std::optional<apiserver::ClusterTarget>> SchemaViews::resolve(const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 1);
  if (!path) {
    return std::nullopt;
  }
  const std::string& consumer = path->segments.front();
  const ClusterInfo* info = sources_.clusters.find_now(consumer);
  if (info == nullptr || info->name != consumer) {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  if (Expected<void> open = check_cluster_state(*info, request.head, path->api_path); !open) {
    return fail(std::move(open.error()));
  }
  std::shared_ptr<One> view;
  if (const auto found = views_.find(consumer); found != views_.end()) {
    view = found->second.lock();
  }
  if (view == nullptr) {
    if (views_.size() >= kMostSchemaViews) {
      std::erase_if(views_, [](const auto& one) { return one.second.expired(); });
    }
    view = std::make_shared<One>(sources_, consumer);
    views_.insert_or_assign(consumer, view);
  } else {
    static_cast<void>(view->reload());  // another loop may have heard of the binding first
  }
  return apiserver::ClusterTarget{std::string(kBoundCluster), std::move(path->api_root),
                                  path->api_path, std::move(view)};
}

}  // namespace kintsugi::controlplane
