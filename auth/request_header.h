#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/user.h"
#include "base/error.h"
#include "http/headers.h"

namespace kintsugi::auth {

/// Names of the headers that carry an identity between a proxy and a server behind it
/// (FP-101, R-21, FP-049). Letter case is free.
struct RequestHeaderConfig {
  std::vector<std::string> user_headers{"X-Remote-User"};
  std::vector<std::string> group_headers{"X-Remote-Group"};
  std::vector<std::string> uid_headers{"X-Remote-Uid"};
  std::vector<std::string> extra_prefixes{"X-Remote-Extra-"};
  std::vector<std::string> allowed_names;  ///< CN of the proxies; empty = any of that CA
};

/// True when a certificate of the request-header CA with this CN may assert identities.
[[nodiscard]] bool may_assert_identity(std::string_view common_name,
                                       const RequestHeaderConfig& config) noexcept;

/// The asserted identity (AM-426): first non-empty user header, every group header, extras with
/// percent-decoded lower-case keys. nullopt without a user header. The caller has checked the
/// certificate.
[[nodiscard]] std::optional<UserInfo> read_identity_headers(const http::HeaderList& headers,
                                                            const RequestHeaderConfig& config);

/// What remove, from a request on its way to a shard: removes every
/// identity header (names of `config` and the default names, also with `_` for `-`), then the
/// hop-by-hop headers and those named in Connection. `Te: trailers` stays. Works on trailers too.
/// @returns the number of identity headers removed, for the counter of forged ones.
std::size_t strip_identity_headers(http::HeaderList& headers, const RequestHeaderConfig& config);

/// Step 3: user once, group once per group, UID if there is one, one header per extra value.
/// Uses the first name of each list of `config`.
/// @error kUnauthorized a name, group or value that cannot stand in a header (control bytes);
///        `headers` may then hold a part and must not be sent.
[[nodiscard]] Expected<void> stamp_identity(http::HeaderList& headers, const UserInfo& user,
                                            const RequestHeaderConfig& config);

/// FP-062 to FP-071: pass list first (empty = all), then the drop list; entries are exact
/// or `prefix*`. The result is sorted and without duplicates.
[[nodiscard]] std::vector<std::string> filter_groups(const std::vector<std::string>& groups,
                                                     const std::vector<std::string>& pass,
                                                     const std::vector<std::string>& drop);
/// --authentication-drop-groups when it is not given.
[[nodiscard]] const std::vector<std::string>& default_drop_groups();

/// Keeps the extras whose key is in `allow` (empty = all) and contains none of `drop_containing`
/// (FP-071). The order stays.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<std::string>>> filter_extra(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& extra,
    const std::vector<std::string>& allow, const std::vector<std::string>& drop_containing);

}  // namespace kintsugi::auth
