#pragma once

#include <string>
#include <string_view>

#include "server/layout.h"

namespace kintsugi::server {

/// What an operator does about a process of an installation that is not ready, or could not start:
/// a sentence without a full stop for who reads `why`, with commands that can be typed; "" where
/// nobody knows better than the log. A table by what faults say, whoever says them (OP-202).
/// @param process  "root", "shard-1", "proxy", …
/// @param why      what it says of itself, or the last line of its log
/// Cost: reads /proc where a port is taken. Threads: any.
[[nodiscard]] std::string remedy_of(std::string_view process, std::string_view why,
                                    const Layout& layout);

/// "<why>; <remedy_of()>", or `why` alone.
[[nodiscard]] std::string with_remedy(std::string_view process, std::string_view why,
                                      const Layout& layout);

/// "shard-1 (<its URL>) has data here and does not run: this start has --shards <shards>, the
/// folder <in_folder>; <what to do>". The URL only where its kubeconfig tells.
[[nodiscard]] std::string left_out_line(std::string_view shard, unsigned shards, unsigned in_folder,
                                        const Layout& layout);

}  // namespace kintsugi::server
