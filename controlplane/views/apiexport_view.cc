#include "controlplane/views/apiexport_view.h"

#include <optional>
#include <utility>
#include <vector>

#include "controlplane/clusters/cluster_resolver.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string key_of(const ExportRef& ref) { return ref.cluster + "/" + ref.name; }

}  // namespace

void ApiExportViews::start(apiserver::ApiServer& server) {
  server_ = &server;
  sources_.catalog.on_export([this](const ExportRef& ref) { export_changed(ref); });
  sources_.catalog.on_schema(
      [this](std::string_view cluster, std::string_view) { schema_changed(cluster); });
  sources_.bindings.listen(
      [this](const BindingInfo* now, const BindingInfo* before) { binding_changed(now, before); });
}

Expected<std::optional<apiserver::ClusterTarget>> ApiExportViews::resolve(
    const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 2);
  if (!path || (path->segments[0].find(':') != std::string::npos &&
                !path->segments[0].starts_with("system:"))) {
    return std::nullopt;
  }
  const ExportRef ref{path->segments[0], path->segments[1]};
  std::shared_ptr<ExportView> view = view_of(ref);
  if (view == nullptr) {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  const ClusterInfo* cluster = sources_.clusters.find(path->cluster);
  if (cluster != nullptr && sources_.bindings.find(path->cluster, ref) != nullptr) {
    if (Expected<void> open = check_cluster_state(*cluster, request.head, path->api_path); !open) {
      return fail(std::move(open.error()));
    }
  }
  return apiserver::ClusterTarget{std::move(path->cluster), std::move(path->api_root),
                                  path->api_path, std::move(view)};
}

std::shared_ptr<ExportView> ApiExportViews::view_of(const ExportRef& ref) {
  const std::string key = key_of(ref);
  if (const auto found = views_.find(key); found != views_.end()) {
    if (std::shared_ptr<ExportView> view = found->second.view.lock()) {
      keep(found->second, view);
      return view;
    }
  }
  const std::optional<Json> api_export = sources_.catalog.get_export(ref);
  if (!api_export) {
    return nullptr;
  }
  auto view = std::make_shared<ExportView>(
      ExportKindSources{sources_.catalog, sources_.builtin, sources_.in_root},
      ExportRightsSources{sources_.catalog, sources_.bindings, sources_.rbac, sources_.in_root},
      ref);
  view->reload(*server_, *api_export);
  Known& known = views_[key];
  known.view = view;
  keep(known, view);
  return view;
}

void ApiExportViews::keep(Known& known, std::shared_ptr<ExportView> view) {
  known.used = ++clock_;
  if (known.kept != nullptr) {
    return;
  }
  known.kept = std::move(view);
  std::size_t kept = 0;
  Known* oldest = nullptr;
  for (auto& [key, one] : views_) {
    if (one.kept != nullptr) {
      ++kept;
      oldest = oldest == nullptr || one.used < oldest->used ? &one : oldest;
    }
  }
  if (kept <= kMaxIdle) {
    return;
  }
  oldest->kept.reset();
  std::erase_if(views_, [](const auto& one) { return one.second.view.expired(); });
}

template <typename Visit>
void ApiExportViews::visit(const Visit& visitor) {
  std::vector<std::shared_ptr<ExportView>> alive;
  for (const auto& [key, known] : views_) {
    if (std::shared_ptr<ExportView> view = known.view.lock()) {
      alive.push_back(std::move(view));
    }
  }
  for (const std::shared_ptr<ExportView>& view : alive) {
    visitor(*view);
  }
}

void ApiExportViews::reload(ExportView& view) {
  if (const std::optional<Json> api_export = sources_.catalog.get_export(view.ref())) {
    view.reload(*server_, *api_export);
    return;
  }
  view.close(*server_);
  views_.erase(key_of(view.ref()));
}

void ApiExportViews::export_changed(const ExportRef& ref) {
  std::optional<std::string> identity;
  visit([&](ExportView& view) {
    if (!identity) {
      const std::optional<Json> api_export = sources_.catalog.get_export(ref);
      identity = api_export ? api_export->text({"status", "identityHash"}) : std::string_view();
    }
    if (view.is_made_of(ref) || view.claims_identity(*identity)) {
      reload(view);
      server_->review_watches(view.ref().cluster);
    }
  });
}

void ApiExportViews::rights_changed(std::string_view cluster) {
  visit([&](const ExportView& view) {
    if (view.ref().cluster != cluster && view.claims_from(cluster)) {
      server_->review_watches(view.ref().cluster);
    }
  });
}

void ApiExportViews::schema_changed(std::string_view cluster) {
  visit([&](ExportView& view) {
    if (view.ref().cluster == cluster || view.claims_others()) {
      reload(view);
    }
  });
}

void ApiExportViews::binding_changed(const BindingInfo* now, const BindingInfo* before) {
  for (const BindingInfo* binding : {now, before}) {
    if (binding != nullptr && views_.find(key_of(binding->target)) != views_.end()) {
      server_->review_watches(binding->target.cluster);
    }
  }
}

}  // namespace kintsugi::controlplane
