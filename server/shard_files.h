#pragma once

#include <cstdint>
#include <string>

#include "auth/jwt.h"
#include "base/error.h"
#include "base/secret.h"
#include "server/layout.h"

/// Files of a shard in the folder of an installation.
namespace kintsugi::server {

/// What must be there before a shard can join. @error kConfig names what is missing and what helps.
[[nodiscard]] Expected<void> check_join_folder(const Layout& layout);

/// Where the key is that signs ServiceAccount tokens on every shard.
[[nodiscard]] std::string account_key_file(const Layout& layout);

/// That key, made by whoever comes first; several
/// processes may try at once. Mode 0600. @error kIo, kConfig.
[[nodiscard]] Expected<auth::JwtKeys> ensure_account_keys(const Layout& layout);

/// The port of the last run, 0 when there was none. @param replica  Layout::shard_replica()
[[nodiscard]] std::uint16_t last_port(const Layout& layout, const std::string& name,
                                      const std::string& replica);

/// `admin.kubeconfig` and `proxy.kubeconfig` with the contexts root and base at the shard itself,
/// in the folder of a replica.
[[nodiscard]] Expected<void> write_shard_access(const Layout& layout, const std::string& name,
                                                const std::string& replica,
                                                const std::string& base_url);
/// For last_port().
[[nodiscard]] Expected<void> write_shard_port(const Layout& layout, const std::string& name,
                                              const std::string& replica, std::uint16_t port);

/// @{ ShardServerParams::as_kcp: the token of `kcp-admin` as a line of auth::TokenFile, made once;
/// and the kubeconfigs as kcp's test server writes them, `root.kubeconfig` with that token and
/// `shards.kubeconfig` with the pair of shard-admin, no server and the context `shard-base`.
[[nodiscard]] Expected<Secret> ensure_kcp_tokens(const Layout& layout, const std::string& name);
[[nodiscard]] Expected<void> write_kcp_files(const Layout& layout, const std::string& name,
                                             const std::string& base_url);
/// @}

/// "https://127.0.0.1:6443": the proxy's address as users see it, out of <dir>/admin.kubeconfig, or
/// as it was told to who joined with a token;
/// "" when there is none.
[[nodiscard]] std::string proxy_url(const Layout& layout);

}  // namespace kintsugi::server
