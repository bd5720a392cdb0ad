#include "apiserver/internal/existence.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "base/strings.h"
#include "krm/not_permitted.h"
#include "krm/request_info.h"

namespace kintsugi::apiserver::internal {
namespace {

/// "/debug" and "/debug/…" for "/debug".
bool is_below(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

bool is_health(std::string_view path) {
  return path == "/livez" || path == "/readyz" || path == "/healthz";
}

auth::Attributes non_resource(const Request& request, std::string cluster, std::string_view verb,
                              std::string_view path) {
  auth::Attributes attributes;
  attributes.user = request.impersonator != nullptr ? *request.impersonator : request.user;
  attributes.cluster = std::move(cluster);
  attributes.is_resource = false;
  attributes.verb = verb;
  attributes.path = path;
  return attributes;
}

void send_not_permitted(Request& request) {
  request.access = krm::kAccessDenied;
  const std::string_view target = request.head.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  const krm::Query query(target.substr(std::min(question + 1, target.size())));
  request.form.pretty =
      wants_pretty(query.get("pretty"), request.accept, request.header("user-agent"));
  send_error(request, krm::not_permitted(request.head.method,
                                         percent_decode(path).value_or(std::string(path))));
}

/// Below a logical cluster as it is, not all of them or a view, nor what only its rights decide.
bool is_in_cluster(const Request& request) {
  return !request.outside && request.view == nullptr && request.cluster != "*" &&
         !request.cluster.empty() && !request.api_root.empty();
}

}  // namespace

void refuse(const RequestPtr& request, Error error) {
  const auto& cluster_of = request->server.tenants().cluster_of;
  const auto path = krm::split_cluster_path(request->head.target);
  if (!cluster_of || !path || !krm::is_workspace_path(path->segment)) {
    send_error(*request, error);
    return;
  }
  std::string cluster = cluster_of(path->segment);
  if (cluster.empty()) {
    cluster = path->segment;  // where nobody has a right but those who have it everywhere
  }
  auto kept = std::make_shared<const Error>(std::move(error));
  request->server.params().authorizer.authorize(
      non_resource(*request, std::move(cluster), "access", "/"),
      [request, kept](const Expected<auth::Decision>& decision) {
        if (request->is_gone()) {
          return;
        }
        if (decision && !decision->allowed) {
          send_not_permitted(*request);
        } else {
          request->access = decision ? krm::kAccessGranted : std::string_view();
          send_error(*request, decision ? *kept : decision.error());
        }
      });
}

bool is_shard_endpoint(const Request& request) {
  constexpr std::string_view kBelow[] = {"/debug/pprof", "/debug/flags",
                                         "/debug/api_priority_and_fairness", "/metrics"};
  if (!request.server.tenants().has_shard_endpoints || !is_in_cluster(request) ||
      request.info.is_resource) {
    return false;
  }
  const std::string_view path = request.info.path;
  return path == "/statusz" ||
         std::any_of(std::begin(kBelow), std::end(kBelow),
                     [path](std::string_view one) { return is_below(path, one); });
}

void answer_shard_endpoint(const RequestPtr& request) {
  send_text(*request, 501, "shard-level endpoint not available at workspace scope\n");
}

bool has_own_access_rule(const Request& request) {
  return request.server.tenants().cluster_of && is_in_cluster(request) &&
         (is_health(request.info.path) || request.info.path == "/metrics") &&
         !request.info.is_resource;
}

void with_own_access_rule(const RequestPtr& request, std::function<void()> allowed) {
  const bool verbose = is_health(request->info.path) && request->info.query.get("verbose");
  request->server.params().authorizer.authorize(
      non_resource(*request, request->cluster, "access", "/"),
      [request, verbose, allowed = std::move(allowed)](const Expected<auth::Decision>& decision) {
        if (request->is_gone()) {
          return;
        }
        if (!decision) {
          send_error(*request, decision.error());
        } else if (!decision->allowed) {
          send_not_permitted(*request);
        } else if (!verbose) {
          allowed();
        } else {
          // Whoever may ask for single checks; everybody may ask whether all is well.
          request->server.params().authorizer.authorize(
              non_resource(*request, request->server.tenants().root, "get",
                           request->info.path + "/ping"),
              [request, allowed](const Expected<auth::Decision>& all) {
                if (!request->is_gone()) {
                  request->terse = !all || !all->allowed;
                  allowed();
                }
              });
        }
      });
}

}  // namespace kintsugi::apiserver::internal
