#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/layout.h"

namespace kintsugi::server {

/// What a token of SE-147 is to be good for. Role and hosts are checked where it is made.
struct TokenOptions {
  Layout layout;
  std::string role;                ///< shard, proxy, proxy-reviewed
  std::string name;                ///< of the shard or proxy
  std::vector<std::string> hosts;  ///< of its serving certificate
  std::int64_t life = 3'600;       ///< [s]
};

/// Prints the token and what the joiner types. @returns the exit status, as all of these do.
int run_token_create(const TokenOptions& options);
/// One line each: id, role, name, end, state. Nothing secret.
int run_token_list(const Layout& layout);
int run_token_revoke(const Layout& layout, const std::string& id);

}  // namespace kintsugi::server
