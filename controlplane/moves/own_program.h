#pragma once

#include <functional>
#include <string>

#include "controlplane/clusters/peer_shards.h"

namespace kintsugi::controlplane {

/// What is said of a shard that logical clusters cannot move to (KK-211).
inline constexpr const char* kNotOurProgram =
    "this Shard is another program's: logical clusters move between shards of kintsugi alone";

/// Whether a shard is known to run another program than this one, kcp or a plain Kubernetes server,
/// which has no steps of a move (GR-601): by what it answers to GET /version. Nothing is changed
/// there.
/// @param done  called once, in a later turn, not at all when `peers` is gone; false also where
/// nobody can say.
void ask_for_other_program(PeerShards& peers, const std::string& shard,
                           std::function<void(bool is_other)> done);

}  // namespace kintsugi::controlplane
