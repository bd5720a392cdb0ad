#include "proxy/forwarding/cluster_requests.h"

#include <utility>

#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "krm/request_target.h"
#include "krm/status.h"
#include "proxy/forwarding/internal/shard_apply.h"
#include "proxy/forwarding/unmarked_write.h"
#include "proxy/gates/impersonate.h"
#include "proxy/routing/local_kinds.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

/// Takes a request body that nobody reads.
class Bodiless final : public http::RequestHandler {
 public:
  Bodiless(http::ResponseStream& stream, std::unique_ptr<http::RequestHandler> next)
      : stream_(stream), next_(std::move(next)) {}
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_drained() noexcept override { next_->on_drained(); }
  void on_close(Errc cause) noexcept override { next_->on_close(cause); }

 private:
  http::ResponseStream& stream_;
  std::unique_ptr<http::RequestHandler> next_;
};

std::string_view trail_of(const Request& request) {
  return std::string_view(request.head.target).substr(request.target.trail);
}

/// In the form that is compared; `buffer` keeps what had to be made.
std::string_view plain_trail(const Request& request, std::string& buffer) {
  return request.target.escaped ? std::string_view(buffer = krm::canonical_trail(trail_of(request)))
                                : trail_of(request);
}

}  // namespace

ClusterRequests::ClusterRequests(Params params) : params_(std::move(params)) {
  params_.forward.held.find = [view = params_.view, &pool = params_.pool](std::string_view target) {
    const auto path = krm::split_cluster_path(target);
    const topology::Resolution found =
        path ? topology::resolve(view->current(), path->segment) : topology::Resolution();
    return found.resolved() ? pool.find(found.shard->id) : nullptr;
  };
}

ClusterRequests::Answer ClusterRequests::forward_it(Request&& request, http::ResponseStream& stream,
                                                    const Route& route) {
  http::RequestHead& head = request.head;
  const topology::ShardInfo& shard = *route.shard;
  shards::ShardClient* client = params_.pool.find(shard.id);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  if (auto refused = params_.admission.refuse_loop(head, stream)) {
    return refused;
  }
  if (shard.spec.impersonate) {
    if (const auto error = judge_impersonation(head, stream.peer())) {
      return serving::answer_error(head, stream, *error);
    }
  }
  std::string buffer;
  const bool unmarks = shard.spec.plain && may_carry_marker(head, plain_trail(request, buffer));
  head.target = topology::shard_target(shard, route.cluster, trail_of(request));
  params_.admission.add_forwarding_headers(head, stream.peer());
  if (unmarks) {
    return forward_unmarked(params_.forward, std::move(head), stream, *client);
  }
  return forward(params_.forward, std::move(head), stream, *client, request.target.is_watch, {},
                 request.note);
}

ClusterRequests::Answer ClusterRequests::serve(Request&& request, http::ResponseStream& stream,
                                               const Route& route) {
  http::RequestHead& head = request.head;
  if (route.reason == RouteReason::kInactive) {
    return serving::answer_error(head, stream,
                                 krm::forbidden("core.kcp.io", "logicalclusters", route.cluster,
                                                "logical cluster is marked inactive"));
  }
  std::string buffer;
  std::string_view trail = plain_trail(request, buffer);
  if (route.cluster == "*") {
    trail = buffer = without_identity(trail);
  } else if (route.shard != nullptr) {
    if (auto answer = shard_apply(request, stream, route.cluster, trail)) {
      return answer;
    }
  }
  head.target = krm::cluster_root(route.cluster) + std::string(trail);
  return params_.local.on_request(std::move(head), stream);
}

ClusterRequests::Answer ClusterRequests::overlay(Request&& request, http::ResponseStream& stream,
                                                 const Route& route) {
  http::RequestHead& head = request.head;
  std::string buffer;
  const std::string_view trail = plain_trail(request, buffer);
  if (route.shard == nullptr) {
    const std::string root = krm::cluster_root(route.cluster);
    head.target = root + std::string(trail);
    return params_.overlay.answer(std::move(head), stream, nullptr, route.cluster, root);
  }
  // Links begin with what the client has put before the API path.
  const std::string root = head.target.substr(0, request.target.trail);
  head.target = topology::shard_target(*route.shard, route.cluster, trail);
  return params_.overlay.answer(std::move(head), stream, params_.pool.find(route.shard->id),
                                route.cluster, root);
}

ClusterRequests::Answer ClusterRequests::ask_first(Request&& request, http::ResponseStream& stream,
                                                   const Route& route, Admission::Then then) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<Request>(std::move(request));
  params_.owners->ask(
      std::string(route.cluster), [weak = waiting->weak(), held, &stream,
                                   then = std::move(then)](const Expected<LocalGroups>& groups) {
        serving::WaitingRequest* self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        self->go_on(groups ? then(std::move(*held))
                           : serving::answer_error(held->head, stream, groups.error().clone()));
      });
  return waiting;
}

ClusterRequests::Answer ClusterRequests::of_one_shard(Request&& request,
                                                      http::ResponseStream& stream,
                                                      const Route& route) {
  const topology::ShardInfo& shard = *route.shard;
  shards::ShardClient* client = params_.pool.find(shard.id);
  if (client == nullptr) {
    return serving::answer_error(request.head, stream, serving::not_known_yet());
  }
  request.head.target = topology::shard_target(shard, "*", trail_of(request));
  params_.admission.add_forwarding_headers(request.head, stream.peer());
  return forward(params_.forward, std::move(request.head), stream, *client, request.target.is_watch,
                 {}, request.note);
}

ClusterRequests::Answer ClusterRequests::shard_apply(Request& request, http::ResponseStream& stream,
                                                     std::string_view cluster,
                                                     std::string_view trail) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity == nullptr || !identity->user) {
    return nullptr;
  }
  const auto report =
      proxy::shard_apply(params_.view->current(), request.head, trail, *identity->user);
  if (!report) {
    return nullptr;
  }
  auth::Attributes attributes;
  attributes.cluster = cluster;
  attributes.verb = "patch";
  attributes.group = "apis.kcp.io";
  attributes.version = "v1alpha1";
  attributes.resource = "apiexportendpointslices";
  attributes.subresource = "status";
  attributes.name = report->slice;
  std::string read = krm::cluster_root(cluster) +
                     "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/" +
                     percent_encode(report->slice);
  return params_.admission.with_right(
      std::move(request), stream, std::move(attributes),
      [this, &stream, read, shard = report->shard](Request allowed) {
        ++ignored_applies_[shard];
        allowed.head.method = "GET";
        allowed.head.target = read;
        allowed.head.end_stream = true;
        allowed.head.headers.remove("content-type");
        allowed.head.headers.remove("content-length");
        return std::make_unique<Bodiless>(
            stream, params_.local.on_request(std::move(allowed.head), stream));
      });
}

}  // namespace kintsugi::proxy
