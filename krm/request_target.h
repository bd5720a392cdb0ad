#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/request_info.h"
#include "krm/service_path.h"

/// The one reading of a request's target (SE-020 to SE-034): proxy, embedded shard, audit, token
/// gate, /explain and tests all ask here. Pure functions, any thread.
namespace kintsugi::krm {

enum class TargetForm : std::uint8_t {
  kProbe,      ///< /livez[/ping], /readyz[/informer-sync]
  kMetrics,    ///< /metrics
  kInfo,       ///< /healthz, /version, which kcp's front proxy does not have (FP-141)
  kCluster,    ///< [scope] /clusters/<cluster>[trail]
  kService,    ///< [scope] /services/<virtual workspace>…[trail]
  kNoService,  ///< below /services too, but nobody serves it (E4)
  kOther,  ///< all else: a mapping entry's, an in-cluster client's, nobody's; two scopes (SE-033)
};

enum class TargetScope : std::uint8_t { kNone, kShard, kPartition };

/// The first segment, as far as it means something.
enum class TargetWord : std::uint8_t { kNone, kClusters, kServices, kShards, kPartitions };

/// What is refused before anything else is looked at, whoever asks.
enum class TargetFault : std::uint8_t {
  kNone,
  kMalformed,  ///< 400 with RequestTarget::reason
  kTooLong,    ///< 414
  kUnclean,    ///< 307 to RequestTarget::reason, the cleaned path with the query
};

struct TargetRules {
  /// The embedded shard reads: what is unclean stays below its logical cluster (KK-375), and no
  /// path leads above it.
  bool shard = false;
  /// Plain servers: what follows the subresource `proxy` is theirs alone (SE-026).
  bool opaque_proxy = false;
};

/// A target understood. Offsets are those of the text as it was sent, because heads are moved and
/// short targets move with them; the text itself is not kept.
struct RequestTarget {
  TargetForm form = TargetForm::kOther;
  TargetScope scope = TargetScope::kNone;
  TargetWord word = TargetWord::kNone;
  TargetFault fault = TargetFault::kNone;
  VirtualWorkspace service = VirtualWorkspace::kOther;  ///< of kService
  std::shared_ptr<const ServicePath> path;              ///< of kService, of nothing else
  bool is_watch = false;  ///< its verb is watch: in the path at its place, or asked for of a list
  bool is_long_running = false;  ///< a watch, or exec, attach, portforward, proxy, log
  std::size_t inner = 0;     ///< where "/clusters/…" or "/services/…" begins: behind the scope
  std::size_t trail = 0;     ///< where the trail begins; it is empty, or begins with '/' or '?'
  std::size_t query = 0;     ///< of '?', or the length
  std::size_t info_end = 0;  ///< where the API path ends: `query`, or an opaque rest begins
  /// As the target names it, decoded: "*", a path or a name, or none of them; "" for none. Of other
  /// forms the segment behind the first "clusters".
  std::string cluster;
  std::string scope_name;     ///< of the shard, or of the Partition; decoded, "" for missing
  std::string scope_cluster;  ///< of the Partition; decoded
  std::string reason;         ///< of the fault: a message, or the Location
  /// What stands before the trail in plain words: "/shards/a/clusters/root:org". "": as it was
  /// sent. The cluster stays as it was sent where it is no cluster.
  std::string plain_prefix;
  bool escaped = false;  ///< something in the trail's path is escaped
};

/// @param method  as sent. @param target  as sent, with the query; any bytes.
/// Never fails: with a `fault`, the rest tells what can be told for the audit log.
/// Cost: one pass; for 120 bytes without escapes below 400 ns on a machine of 3 GHz, and no
/// allocation beyond those of the names.
[[nodiscard]] RequestTarget parse_target(std::string_view method, std::string_view target,
                                         TargetRules rules = {});

/// The verb, object and query of what `parsed` says of `target`: of the trail below a cluster, of
/// the whole path else.
[[nodiscard]] RequestInfo request_info_of(std::string_view method, std::string_view target,
                                          const RequestTarget& parsed);

/// Path of a trail in the one form in which it is compared: decoded once, split, and every segment
/// escaped again where it has to be, so that equal meaning is equal text. With the query,
/// untouched. Without escapes it is the trail as it was sent.
/// @param trail  of a target without a fault.
[[nodiscard]] std::string canonical_trail(std::string_view trail);

/// The target as it is understood: plain words in front, the canonical trail, the query as sent.
/// It is parsed as the same target again; where no such text exists, the target as it was sent.
[[nodiscard]] std::string canonical_target(std::string_view target, const RequestTarget& parsed);

/// 400 for a resource with an empty identity ("widgets:"), KK-378.
[[nodiscard]] Error missing_identity(std::string_view resource);

/// True for a watch, as RequestTarget::is_watch says. Cost: nearly every target that is none fails
/// a search for the word.
[[nodiscard]] bool is_watch(std::string_view method, std::string_view target);

/// The segment behind the first "clusters" of any path, decoded; "" for none (front proxy, 8.1).
[[nodiscard]] std::string named_cluster(std::string_view path);

/// Decoded path without query, as messages show it; what cannot be decoded stays.
[[nodiscard]] std::string shown_path(std::string_view target);

}  // namespace kintsugi::krm
