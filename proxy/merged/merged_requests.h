#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/documents/merged_document.h"
#include "aggregation/merge_loop.h"
#include "aggregation/rights/permit.h"
#include "http/handler.h"
#include "proxy/forwarding/admission.h"
#include "proxy/forwarding/forward.h"
#include "proxy/routing/router.h"
#include "topology/identities.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Reads of several shards, whose caller is known: what they cover and whose rights count is put
/// together here, `aggregation` answers. Threads: its loop.
class MergedRequests {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  struct Params {
    std::shared_ptr<topology::SnapshotView> view;
    aggregation::MergeLoop& merge;
    aggregation::DocumentLoop& documents;
    const Admission& admission;
    ForwardLoop& forward;  ///< who pays, and what he may have open
    const RouteFacts& facts;
    /// Of kcp's own exports; null: there are none.
    std::shared_ptr<const topology::Identities> identities = {};
    bool share_reviewed = false;     ///< `share: reviewed`
    bool wildcard_reviewed = false;  ///< `wildcard: reviewed`
  };
  explicit MergedRequests(Params params) : params_(std::move(params)) {}

  /// RouteKind::kMergedList, kMergedWatch, kMergedGet, kMergedDocument and kRefusedRead.
  [[nodiscard]] Answer read(Request&& request, http::ResponseStream& stream, Route&& route);
  /// RouteKind::kServiceMerged.
  [[nodiscard]] Answer service(Request&& request, http::ResponseStream& stream, Route&& route);
  /// RouteKind::kServiceDocument.
  [[nodiscard]] Answer service_document(Request&& request, http::ResponseStream& stream,
                                        Route&& route);

 private:
  [[nodiscard]] Answer bounded(http::RequestHead&& head, http::ResponseStream& stream,
                               aggregation::MergeRoute&& merge);
  [[nodiscard]] aggregation::MergeCaller caller_of(const http::RequestHead& head,
                                                   const http::PeerInfo& peer) const;
  [[nodiscard]] Answer document(Request&& request, http::ResponseStream& stream,
                                const Route& route);
  [[nodiscard]] aggregation::DocumentRoute::Source source_of(const topology::ShardInfo& shard,
                                                             std::string target) const;
  /// What `wildcard: reviewed` asks of a read of clusters/* of kcp's shards; null: nothing.
  /// @param path  below it
  [[nodiscard]] Expected<std::shared_ptr<const aggregation::ReviewPlan>> root_reviews(
      const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
      std::string_view path) const;
  /// What `share: reviewed` asks of a read of a virtual workspace; null: nothing.
  [[nodiscard]] Expected<std::shared_ptr<const aggregation::ReviewPlan>> service_reviews(
      const Request& request, const http::PeerInfo& peer, const ServiceRoute& service,
      const aggregation::WildcardRequest& asked) const;
  /// The owner of a logical cluster, given by name or path, as long as it is known.
  [[nodiscard]] std::function<std::optional<aggregation::ReviewServer>()> judge_of(
      std::string owner) const;

  Params params_;
};

}  // namespace kintsugi::proxy
