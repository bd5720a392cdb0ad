#include "proxy/routing/route_reason.h"

namespace kintsugi::proxy {
namespace {

using topology::NotFoundReason;

RouteReason reason_of(NotFoundReason reason) noexcept {
  switch (reason) {
    case NotFoundReason::kInvalid:
      return RouteReason::kInvalid;
    case NotFoundReason::kWildcard:
      return RouteReason::kWildcard;
    case NotFoundReason::kMountSuffix:
      return RouteReason::kMountSuffix;
    case NotFoundReason::kMountHost:
      return RouteReason::kMountHost;
    case NotFoundReason::kPathConflict:
      return RouteReason::kPathConflict;
    case NotFoundReason::kUnconfirmed:
      return RouteReason::kUnconfirmed;
    case NotFoundReason::kNone:
    case NotFoundReason::kUnknown:
      break;
  }
  return RouteReason::kUnknown;
}

}  // namespace

std::string_view route_reason_name(RouteReason reason) noexcept {
  switch (reason) {
    case RouteReason::kNone:
      return "";
    case RouteReason::kMalformed:
      return "malformed";
    case RouteReason::kTooLong:
      return "too-long";
    case RouteReason::kUnclean:
      return "unclean";
    case RouteReason::kNoSuchPath:
      return "no-such-path";
    case RouteReason::kNoSuchShard:
      return "no-such-shard";
    case RouteReason::kNoSuchPartition:
      return "no-such-partition";
    case RouteReason::kNoVirtualWorkspace:
      return "no-virtual-workspace";
    case RouteReason::kInvalid:
      return topology::reason_name(NotFoundReason::kInvalid);
    case RouteReason::kWildcard:
      return topology::reason_name(NotFoundReason::kWildcard);
    case RouteReason::kUnknown:
      return topology::reason_name(NotFoundReason::kUnknown);
    case RouteReason::kMountSuffix:
      return topology::reason_name(NotFoundReason::kMountSuffix);
    case RouteReason::kMountHost:
      return topology::reason_name(NotFoundReason::kMountHost);
    case RouteReason::kPathConflict:
      return topology::reason_name(NotFoundReason::kPathConflict);
    case RouteReason::kUnconfirmed:
      return topology::reason_name(NotFoundReason::kUnconfirmed);
    case RouteReason::kMountPath:
      return "mount-path";
    case RouteReason::kMountLoop:
      return "mount-loop";
    case RouteReason::kMountBelowPrefix:
      return "mount-below-prefix";
    case RouteReason::kElsewhere:
      return "elsewhere";
    case RouteReason::kNotKnownYet:
      return "not-known-yet";
    case RouteReason::kUnavailable:
      return "workspace-unavailable";
    case RouteReason::kInactive:
      return "logical-cluster-inactive";
    case RouteReason::kNoShardUp:
      return "no-shard-up";
    case RouteReason::kMethod:
      return "method-not-allowed";
    case RouteReason::kVerb:
      return "verb-not-for-all-clusters";
    case RouteReason::kNamespaced:
      return "namespace-and-all-clusters";
    case RouteReason::kNotOfAll:
      return "of-one-shard-only";
    case RouteReason::kBadQuestion:
      return "bad-question";
  }
  return "";
}

RouteReason reason_of(const topology::Resolution& found) noexcept {
  switch (found.kind) {
    case topology::Resolution::Kind::kResolved:
      return RouteReason::kNone;
    case topology::Resolution::Kind::kNotKnown:
      return RouteReason::kNotKnownYet;
    case topology::Resolution::Kind::kUnavailable:
      return RouteReason::kUnavailable;
    case topology::Resolution::Kind::kMount:
      return found.reason == NotFoundReason::kNone ? RouteReason::kMountBelowPrefix
                                                   : reason_of(found.reason);
    case topology::Resolution::Kind::kNotFound:
      break;
  }
  return reason_of(found.reason);
}

}  // namespace kintsugi::proxy
