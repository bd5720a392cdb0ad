#pragma once

#include <optional>
#include <string_view>

#include "controlplane/clusters/server_facts.h"
#include "controlplane/views/answering_view.h"

namespace kintsugi::controlplane {

/// Facts of this name say what a proxy told of Partitions (KK-201): `{source, selector}` by cluster
/// and name of the Partition; without selector it selects all shards.
inline constexpr std::string_view kPartitionFacts = "partitions";

/// How a shard answers partitionnotes in the view `partitions`: a proxy says there what a Partition
/// selects that a ClusterCachedResourceEndpointSlice of this shard names. A note of a Partition
/// that no slice of the logical cluster names is 404, so that not more is stored than slices need.
/// `gone` takes back what the same source has told, of no other one. @param facts  outlives the
/// view.
[[nodiscard]] AnsweringView::Answer answer_notes(ServerFacts& facts);

/// What is stored because of a note, beside what there is: the note of another source about a
/// Partition that exists replaces what there is. Pure.
struct NoteOutcome {
  bool writes = false;
  std::optional<krm::Json> fact;  ///< nullopt and `writes`: erased
};
[[nodiscard]] NoteOutcome judge_note(const krm::Json& spec, const std::optional<krm::Json>& before);

}  // namespace kintsugi::controlplane
