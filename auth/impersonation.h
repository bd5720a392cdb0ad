#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authorizer.h"
#include "auth/user.h"
#include "base/error.h"
#include "http/headers.h"

namespace kintsugi::auth {

/// Whether there is any Impersonate-* header, in whatever spelling.
[[nodiscard]] bool has_impersonation(const http::HeaderList& headers) noexcept;

/// admit_impersonation() of impersonation_gate.h for a logical cluster: the user that Impersonate-*
/// headers name, as they name it. nullopt without any.
/// @param requester who really asks.
[[nodiscard]] Expected<std::optional<UserInfo>> read_impersonation(const http::HeaderList& headers,
                                                                   const UserInfo& requester);

class ModeMemory;

/// Lets requests go on as who they impersonate, as Kubernetes 1.36 does: the modes of
/// impersonation_modes.h in their order, the one that a requester used last before all others.
/// What was allowed is asked again by the next request, so that a right that is taken away ends at
/// once. Whoever is impersonated is himself in the logical cluster of the request alone, unless the
/// requester is in system:masters (KK-323). Threads: those of the authorizer.
class Impersonator {
 public:
  /// @param authorizer must live as long as questions are under way.
  explicit Impersonator(Authorizer& authorizer);
  ~Impersonator();
  Impersonator(const Impersonator&) = delete;
  Impersonator& operator=(const Impersonator&) = delete;

  struct Effective {
    UserInfo user;           ///< the requester itself without headers
    std::string constraint;  ///< "impersonate:<mode>" of constrained impersonation, for audit logs
  };
  using Done = std::function<void(Expected<Effective>)>;
  /// @param request what is to be done as the other user; its user is the requester.
  /// @param done called once, at once or when the authorizer has answered.
  /// @error as admit_impersonation; the 403 of the first mode that could have been; what the
  ///        authorizer fails with.
  void impersonate(const http::HeaderList& headers, Attributes request, Done done);

 private:
  Authorizer& authorizer_;
  std::shared_ptr<ModeMemory> memory_;
};

}  // namespace kintsugi::auth
