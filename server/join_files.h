#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "base/secret.h"
#include "krm/json.h"
#include "server/layout.h"

/// What somebody who joins with a token asks for and keeps (SE-147). The other side is
/// server/internal/join_service.h.
namespace kintsugi::server {

/// The keys of a joiner, made here and never sent, by what they are for: "serving", "client",
/// "request-header". Whatever role the token has, it takes what it needs of them.
struct JoinKeys {
  std::map<std::string, Secret> key_pem;
  std::map<std::string, std::string> request_pem;
};
/// @error kInternal.
[[nodiscard]] Expected<JoinKeys> make_join_keys();

/// Those certificates of a PEM text whose key has the hash ("sha256:<hex>"); "" for none.
[[nodiscard]] std::string pinned_authorities(const std::string& pem, const std::string& hash);

/// Where the joiner will be; for a proxy's configuration.
struct JoinPlace {
  Layout layout;
  std::string address = "127.0.0.1";
  std::uint16_t port = 6443;
};
/// Writes keys (0600), certificates, CAs and kubeconfigs below the folder; for a proxy
/// `proxy/proxy.yaml`, where there is none. Joined again, new ones take the place of the old ones.
/// @returns what may be started now, as a person types it.
/// @error kConfig the answer is none, or names files that are not its to name; kIo.
[[nodiscard]] Expected<std::string> write_joined(const JoinPlace& place, const krm::Json& answer,
                                                 const JoinKeys& keys);

}  // namespace kintsugi::server
