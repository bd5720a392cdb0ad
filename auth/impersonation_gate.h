#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "auth/user.h"
#include "base/error.h"
#include "http/headers.h"

/// What may be asked for by Impersonate-* at all, before anybody's rights to it are looked at. Used
/// by the proxy for every form of path and by servers before impersonation.
namespace kintsugi::auth {

/// Where a request leads.
enum class ImpersonationPlace : std::uint8_t {
  kCluster,  ///< one logical cluster, or outside of all
  kShared,   ///< a virtual workspace or clusters/*: nobody but system:masters speaks for others
};

inline constexpr std::size_t kMostImpersonationValues = 64;
inline constexpr std::size_t kMostImpersonationBytes = std::size_t{64} << 10;

/// Whether a header is one of Impersonate-*: in any letter case, also with `_` for `-`.
[[nodiscard]] bool is_impersonation_header(std::string_view name) noexcept;
/// Gives all of them their usual names: what was judged is what a server behind reads.
void spell_impersonation(http::HeaderList& headers);

/// The user that Impersonate-* headers name, as they name it: no group is added. nullopt without
/// any. Members of system:masters may name anybody. Others may not name system:masters,
/// system:authenticated and system:kcp:admin without being in it, any other group of system:kcp:*,
/// groups system:cluster:*, system:kintsugi:*, apis.kcp.io:* and system:nodes, users
/// system:kcp:*, system:kintsugi:*, apis.kcp.io:*, system:apiserver and system:admin, and extras of
/// kcp.io and domains below it but authentication.kcp.io/scopes, which only narrows.
/// @param requester who really asks; null: whom a server behind will find out, and will judge
///        system:authenticated and system:kcp:admin for.
/// @error kBadRequest more than 64 values or 64 KiB, several users or uids; group, uid or extra
///        without a user.
/// @error kForbidden as above, and anything in kShared.
/// Source: KK-320, KK-321, KK-324, KK-327, SE-051, SE-052.
[[nodiscard]] Expected<std::optional<UserInfo>> admit_impersonation(const http::HeaderList& headers,
                                                                    const UserInfo* requester,
                                                                    ImpersonationPlace place);

}  // namespace kintsugi::auth
