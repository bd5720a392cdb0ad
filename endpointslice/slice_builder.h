#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "topology/partition_set.h"

/// APIExportEndpointSlice, computed (T-09, T-10). Pure functions.
namespace kintsugi::endpointslice {

enum class EndpointMode : std::uint8_t { kDirect, kProxied, kAggregated };
enum class Consumers : std::uint8_t { kIgnored, kRequired };

/// Proxies in several regions (GR-501).
struct Regions {
  std::string label = "region";  ///< of Shards: names their region
  /// Where the proxies of each are, by region; none: there are no regions.
  std::vector<std::pair<std::string, std::string>> urls;
  bool operator==(const Regions&) const = default;
  /// "" where the region has none.
  [[nodiscard]] std::string_view url_of(std::string_view region) const;
};

struct SliceDefaults {
  EndpointMode mode = EndpointMode::kDirect;
  Consumers consumers = Consumers::kIgnored;
  std::string external_url;  ///< of the proxy; "" = not configured
  Regions regions;
  /// So long the entry of a relabelled shard stays (endpoint_slice.leave_grace_ms).
  Duration leave_grace = Duration::zero();
  bool make_defaults = true;  ///< one slice per export
};

/// What is known about the export that a slice names.
struct ExportFacts {
  enum class State : std::uint8_t { kFound, kAbsent, kUnknown } state = State::kUnknown;
  std::string cluster_name;  ///< logical cluster that the path leads to, "" when nowhere (yet)
};

/// A shard as this slice sees it.
struct SliceShard {
  const topology::ShardFacts* facts = nullptr;
  bool has_consumer = false;  ///< holds at least one binding of the export
  bool bindings_synced = true;
  bool stays = false;  ///< if it is one of leaving_shards(), it does not leave yet
};

/// What a Partition selects, worked out once for all slices that name it.
struct ShardSelection {
  std::string fault;           ///< why the selector is invalid; "" when it holds
  krm::Json selector;          ///< as stored, null when it is not set
  std::string text;            ///< status.shardSelector
  std::vector<bool> selected;  ///< one per shard, in the order of the shards
};
/// @param partition as stored. Evaluates the selector once per shard.
[[nodiscard]] ShardSelection select_shards(const krm::Json& partition,
                                           const std::vector<topology::ShardFacts>& shards);

struct SliceInput {
  const krm::Json* slice = nullptr;  ///< as stored
  std::string cluster;               ///< logical cluster name of the slice
  ExportFacts export_facts;
  /// Of the Partition that spec.partition names, over the same shards; null when absent or not
  /// named.
  const ShardSelection* partition = nullptr;
  std::vector<SliceShard> shards;  ///< every registered shard, sorted by name
  std::string now;                 ///< RFC 3339, for conditions that change
  /// URLs in status.endpoints that other field managers own (foreign_urls()); never touched.
  std::vector<std::string> foreign_urls;
};

/// URLs of status.endpoints that a field manager owns who is neither the proxy nor named like a
/// Shard, also when the proxy owns them too: they stay until everybody has released them
/// (T-12).
[[nodiscard]] std::vector<std::string> foreign_urls(
    const krm::Json& slice, const std::vector<topology::ShardFacts>& shards);

/// The mode of a slice: its annotation kintsugi.dev/endpoint-mode, else the default.
[[nodiscard]] EndpointMode endpoint_mode(const krm::Json& slice, const SliceDefaults& defaults);
[[nodiscard]] Consumers consumers_policy(const krm::Json& slice, const SliceDefaults& defaults);
/// Warning texts for unknown annotation values; empty when there is nothing to say.
[[nodiscard]] std::vector<std::string> annotation_warnings(const krm::Json& slice,
                                                           const Regions& regions);

/// Names of the shards whose entries go although the Partition still selects as it did: they were
/// relabelled. Empty in mode aggregated, which has no entry of a shard.
[[nodiscard]] std::vector<std::string> leaving_shards(const SliceInput& input,
                                                      const SliceDefaults& defaults);

/// The wanted status of a slice: endpoints, shardSelector (left out when it selects everything, as
/// kcp writes it) and the three conditions, in one object.
[[nodiscard]] krm::Json build_slice_status(const SliceInput& input, const SliceDefaults& defaults);

/// How one shard takes part in a slice, for people.
struct ShardPart {
  std::string shard;
  bool selected = false;  ///< by the Partition
  bool effective =
      false;        ///< selected or not leaving yet, and has consumers where they are required
  std::string why;  ///< it has no endpoint; "" when it has one
};
/// One per shard of the input; the Partition, when there is one, must be valid.
[[nodiscard]] std::vector<ShardPart> explain_shards(const SliceInput& input,
                                                    const SliceDefaults& defaults);

/// `<base>/<rest>` with exactly one slash between and no empty segments; the base keeps its path.
/// @error kBadRequest when the base is no http(s) URL with a host.
[[nodiscard]] Expected<std::string> join_url(std::string_view base, std::string_view rest);

}  // namespace kintsugi::endpointslice
