#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apiserver/admission.h"
#include "apiserver/changed_object.h"
#include "apiserver/resource.h"
#include "apiserver/view.h"
#include "auth/authenticator.h"
#include "auth/authorizer.h"
#include "base/error.h"
#include "http/handler.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::apiserver {

/// Which logical cluster a request addresses.
struct ClusterTarget {
  std::string name;       ///< logical cluster name, or "*"
  std::string api_root;   ///< "/clusters/<as sent>" or "": what stands before the API path, for
                          ///< links and messages
  std::string_view rest;  ///< target below the root (path and query), undecoded
  std::shared_ptr<View> view{};  ///< null: the cluster as it is
  /// Where a watch begins in the place of the resourceVersion that it asks for; 0: there.
  store::Revision watch_after = 0;
};

/// Finds the cluster of a request target. An error is sent as it is (400, 403, 404, 429 of
/// KK-361, KK-362). nullopt: a path outside of clusters (health, version, 403).
using ClusterResolver = std::function<Expected<std::optional<ClusterTarget>>(
    const http::RequestHead& head, const auth::UserInfo& user)>;

/// One health check of /livez or /readyz.
struct HealthCheck {
  std::string name;
  bool readiness_only = false;
  std::function<Expected<void>()> check;
};

/// How many requests may run at once on one server, that is on one loop (AM-067); the next one of
/// its pool is answered 429 with Retry-After (AM-026). 0: no limit. A write runs until it is
/// committed, a read until its answer is complete, a watch until its first event can follow. Health
/// checks, members of system:masters and in-process writes are not limited.
struct ConcurrencyLimits {
  std::size_t reads = 4'000, writes = 1'000, watch_starts = 4'000;
  bool operator==(const ConcurrencyLimits&) const = default;
};

struct ServerParams {
  net::Loop& loop;
  store::Store& store;
  Registry& registry;
  auth::Authenticator& authenticator;
  auth::Authorizer& authorizer;
  ClusterResolver resolve;
  std::vector<HealthCheck> checks;
  /// JSON documents at paths of their own below every API root (key sets), for those who may get
  /// the path; nullopt: no such document. A string is sent as plain text (metrics).
  std::function<std::optional<krm::Json>(std::string_view api_root, std::string_view path)>
      document{};
  /// Rules about writes of all kinds, in the order in which they are asked.
  std::vector<std::unique_ptr<AdmissionStep>> admission{};
  /// Gets a line of JSON for every answer (AM-455); must not block. Empty: no audit log.
  std::function<void(std::string line)> audit{};
  /// What the identity of a watch that begins rests on; `token` is what `authenticator` was given,
  /// `requester` who was authenticated. Empty: what that of the connection does.
  std::function<auth::ProofPtr(const http::RequestHead&, const auth::BearerPtr& token,
                               const http::PeerInfo&, std::string_view cluster,
                               const auth::UserInfo& requester)>
      proof{};
  std::string server_address = "127.0.0.1";  ///< shown in /api
  std::size_t max_body = 3'145'728;          ///< [bytes] AM-058
  std::size_t max_object = 1'572'864;        ///< [bytes] AM-059
  Duration bookmark_interval = seconds(60);
  Duration watch_lag = seconds(10);    ///< so long may a watch hold more unsent than it should
  Duration review_delay = seconds(1);  ///< changes of rights that review_watches() takes together
  ConcurrencyLimits concurrency{};
};

/// What a controller wants of an object (ApiServer::write).
struct CreateObject {
  krm::Json object;
  bool keep_identity = false;  ///< uid and creation time are those of the object
};
struct UpdateObject {
  krm::Json object;  ///< its resourceVersion, if it has one, must be the present one
  std::string subresource{};
};
struct DeleteObject {
  std::string expected_uid;  ///< "": any
};
struct WriteRequest {
  std::string cluster, group, resource, ns, name;
  std::variant<CreateObject, UpdateObject, DeleteObject> what;
  std::string manager;          ///< the field manager
  bool skip_admission = false;  ///< for system objects that users may not make
  /// Of the duty in which it is written: not done when another process has that.
  /// @error (of the write) kUnavailable
  std::optional<store::Fence> fence{};
};

/// The Kubernetes-grade API server on one loop: discovery, CRUD, lists, watches, patches, tables
/// (AM-001 and on). Serves what its Registry names out of its Store. Used by the embedded
/// shard for everything and by the proxy for its own kinds. Threads: its loop. Several servers (one
/// per loop) may share a Store.
class ApiServer : public http::Handler {
 public:
  [[nodiscard]] static std::unique_ptr<ApiServer> make(ServerParams params);

  /// Reading committed objects, for controllers and hooks on this loop.
  [[nodiscard]] virtual const ObjectReader& reader() const = 0;

  using CreateObject = apiserver::CreateObject;
  using UpdateObject = apiserver::UpdateObject;
  using DeleteObject = apiserver::DeleteObject;
  using WriteRequest = apiserver::WriteRequest;
  /// In-process writes by controllers, with all rules of the wire but authorization: same
  /// admission, validation, no-op detection, finalizer logic. `done` comes in a later turn.
  virtual void write(WriteRequest request, std::function<void(Expected<krm::Json>)> done) = 0;

  /// Every committed change of a resource ("" = all), on this loop, in order. Starts after
  /// the state that reader() shows now. Destroying the handle ends it.
  struct Change {
    std::string cluster, group, resource, ns, name;
    std::string identity;    ///< of a bound API (ResourceDef::identity)
    ChangedObject object;    ///< null: deleted
    ChangedObject previous;  ///< null: created
    store::Revision revision = 0;
  };
  [[nodiscard]] virtual std::shared_ptr<void> on_change(
      std::string_view group, std::string_view resource,
      std::function<void(const Change&)> listener) = 0;

  /// How many objects a resource, named as in store keys ("widgets.ex.io"), has in a namespace, and
  /// the revision at which that was so. Cost: one step per object, without reading it.
  struct Counted {
    std::int64_t objects = 0;
    store::Revision revision = 0;
  };
  [[nodiscard]] virtual Expected<Counted> count(std::string_view cluster, std::string_view resource,
                                                std::string_view ns) const = 0;

  /// Readiness fails, watches end in order (last bookmark, END_STREAM), new requests get 503.
  virtual void start_drain() = 0;
  /// Streams of this resource in this cluster end cleanly (definition changed or gone).
  virtual void end_watches(std::string_view cluster, std::string_view group,
                           std::string_view resource) = 0;
  /// Streams of a view end cleanly: those of one resource, or all ("").
  virtual void end_watches(const View& view, std::string_view group, std::string_view resource) = 0;
  /// Rights in this cluster changed: within a few seconds its open watches are asked about again
  /// (ServerParams::authorizer), and those that are not allowed any more end (AM-312).
  virtual void review_watches(std::string_view cluster) = 0;
  /// The same for the watches of all clusters, for servers that do not see rights change.
  virtual void review_all_watches() = 0;
  /// Proofs of identities have ended: watches that rest on them end in order, at most 200 a second
  /// (SE-042, SE-050).
  virtual void end_unproven() = 0;

  struct Stats {
    std::size_t watches = 0, requests_running = 0;
    std::uint64_t requests = 0, watch_events = 0;
    std::uint64_t requests_refused = 0;  ///< too many at once
    std::size_t watch_queue_bytes = 0;
  };
  [[nodiscard]] virtual Stats stats() const = 0;
};

}  // namespace kintsugi::apiserver
