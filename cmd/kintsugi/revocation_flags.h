#pragma once

#include <string>
#include <vector>

#include "cmd/kintsugi/flags.h"
#include "server/shard_program.h"

namespace kintsugi::cmd {

/// Revocation lists as they are typed for `shard` and `up`.
struct RevocationOptions {
  std::string client, request_header, backend, stale = "refuse";
  bool required = false;
};
[[nodiscard]] std::vector<Flag> revocation_flags(RevocationOptions& options);
/// @error kConfig names the option and what is wrong with it.
[[nodiscard]] Expected<server::ShardRevocations> understood_revocations(
    const RevocationOptions& options);

}  // namespace kintsugi::cmd
