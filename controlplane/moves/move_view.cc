#include "controlplane/moves/move_view.h"

#include <utility>
#include <vector>

#include "auth/own_roles.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {

using krm::Json;

class MoveView::One final : public apiserver::View,
                            private apiserver::Registry,
                            private auth::Authorizer {
 public:
  explicit One(MoveSteps& steps) {
    apiserver::ResourceDef def = *cluster_dump_kind();
    def.hooks.answer = [&steps](const apiserver::WriteContext& context, Json object,
                                const apiserver::Hooks::CreateDone& done) {
      const Json* asked = object.find("spec");
      steps.run(std::string(context.cluster), asked == nullptr ? Json::object() : *asked,
                [object, done](Expected<Json> answer) mutable {
                  if (!answer) {
                    done(fail(std::move(answer.error())));
                    return;
                  }
                  object.erase("spec");
                  object["status"] = std::move(*answer);
                  done(std::move(object));
                });
    };
    def_ = std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }

  [[nodiscard]] const apiserver::Registry& registry() const override { return *this; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return *this; }
  [[nodiscard]] std::string_view rights_cluster() const override { return {}; }
  [[nodiscard]] krm::Selector visible(std::string_view,
                                      const apiserver::ResourceDef&) const override {
    return {};
  }
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext&,
                                       const apiserver::ResourceDef&, Json&,
                                       const Json*) const override {
    return {};
  }

 private:
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view, std::string_view group,
                                            std::string_view resource) const override {
    return group == kMigrationGroup && resource == kClusterDumps ? def_ : nullptr;
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view) const override {
    return {def_};
  }
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return 1; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  void authorize(const auth::Attributes& attributes, Done done) override {
    const bool allowed =
        attributes.user.in_group(auth::kGroupOwnShard) && attributes.verb == "create";
    done(auth::Decision{allowed, allowed ? "access granted" : "access denied"});
  }

  apiserver::ResourcePtr def_;
};

MoveView::MoveView(MoveSteps& steps) : view_(std::make_shared<One>(steps)) {}
MoveView::~MoveView() = default;

Expected<std::optional<apiserver::ClusterTarget>> MoveView::resolve(const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 1);
  if (!path) {
    return std::nullopt;
  }
  if (path->segments.front() != path->cluster) {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  return apiserver::ClusterTarget{std::move(path->cluster), std::move(path->api_root),
                                  path->api_path, view_};
}

}  // namespace kintsugi::controlplane
