#include "controlplane/views/answering_view.h"

#include <utility>
#include <vector>

#include "controlplane/clusters/cluster_resolver.h"

namespace kintsugi::controlplane {

class AnsweringView::One final : public apiserver::View,
                                 private apiserver::Registry,
                                 private auth::Authorizer {
 public:
  One(const apiserver::ResourceDef& kind, std::string_view group, Answer answer) : group_(group) {
    apiserver::ResourceDef def = kind;
    def.hooks.answer = std::move(answer);
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
                                       const apiserver::ResourceDef&, krm::Json&,
                                       const krm::Json*) const override {
    return {};
  }

 private:
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view, std::string_view group,
                                            std::string_view resource) const override {
    return group == def_->group && resource == def_->plural ? def_ : nullptr;
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view) const override {
    return {def_};
  }
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return 1; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  void authorize(const auth::Attributes& attributes, Done done) override {
    const bool allowed =
        attributes.user.in_group(group_) && attributes.is_resource && attributes.verb == "create";
    done(auth::Decision{allowed, allowed ? "access granted" : "access denied"});
  }

  const std::string group_;
  apiserver::ResourcePtr def_;
};

AnsweringView::AnsweringView(const apiserver::ResourceDef& kind, std::string_view group,
                             Answer answer)
    : view_(std::make_shared<One>(kind, group, std::move(answer))) {}
AnsweringView::~AnsweringView() = default;

Expected<std::optional<apiserver::ClusterTarget>> AnsweringView::resolve(
    const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 1);
  if (!path) {
    return std::nullopt;
  }
  if (path->segments.front() != path->cluster || path->cluster == "*") {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  return apiserver::ClusterTarget{std::move(path->cluster), std::move(path->api_root),
                                  path->api_path, view_};
}

}  // namespace kintsugi::controlplane
