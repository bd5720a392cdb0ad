#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "krm/json.h"

/// Tokens by which a process of another folder or machine joins an installation (SE-147). What its
/// bearer becomes stands in the token's row, not in what he asks for.
namespace kintsugi::server {

enum class JoinRole : std::uint8_t {
  kShard,     ///< an embedded shard: its serving certificate, and its own at other shards
  kProxy,     ///< a proxy: serving, request-header and its own at shards
  kReviewed,  ///< reads of a proxy with `share: reviewed`
};
[[nodiscard]] std::string_view name_of(JoinRole role) noexcept;
/// @error kConfig names those that there are.
[[nodiscard]] Expected<JoinRole> join_role_of(std::string_view name);

struct JoinToken {
  std::string id;  ///< no secret: for lists and audit
  JoinRole role = JoinRole::kShard;
  std::string name;                ///< of the shard or proxy
  std::vector<std::string> hosts;  ///< DNS names and addresses of its serving certificate
  std::int64_t ends_at = 0;        ///< [s since 1970]
  std::int64_t used_at = 0;        ///< 0: not yet
};

/// The tokens of one installation: `pki/join-tokens.json`, of each the HMAC of its secret only.
/// Threads, and processes: any, one after the other.
class JoinTokens {
 public:
  explicit JoinTokens(std::string folder) : folder_(std::move(folder)) {}

  /// @returns what the joiner types: "<id>.<secret>". It is nowhere else.
  [[nodiscard]] Expected<std::string> create(JoinToken token) const;
  /// Those that ended more than a day ago are left out.
  [[nodiscard]] Expected<std::vector<JoinToken>> list() const;
  /// @error kNotFound.
  [[nodiscard]] Expected<void> revoke(std::string_view id) const;
  /// Uses it up, before anything is given for it. @error kForbidden: unknown, wrong, used, ended,
  /// in one text for all; kIo.
  [[nodiscard]] Expected<JoinToken> take(std::string_view token, std::int64_t now) const;

 private:
  [[nodiscard]] Expected<Secret> secret_key() const;
  [[nodiscard]] Expected<krm::Json> load() const;
  [[nodiscard]] Expected<void> save(const krm::Json& rows) const;
  const std::string folder_;
};

}  // namespace kintsugi::server
