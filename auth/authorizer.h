#pragma once

#include <functional>
#include <string>

#include "auth/user.h"
#include "base/error.h"

namespace kintsugi::auth {

/// What is asked, as in SubjectAccessReview.
struct Attributes {
  UserInfo user;
  std::string cluster;  ///< logical cluster, "*" for wildcard requests, "" outside
  bool is_resource = true;
  std::string verb;
  std::string group, version, resource, subresource, ns, name;
  std::string path;  ///< non-resource requests
  std::string field_selector_name;
  /// Only the rights themselves count, not whether the user may enter the cluster (bind checks).
  bool deep = false;
};

struct Decision {
  bool allowed = false;
  std::string
      reason;  ///< "RBAC: allowed by …"; for denials what follows ": " in the message, may be empty
};

/// Decides whether a request may go on. One instance per loop; answers at once or later, never
/// twice.
class Authorizer {
 public:
  /// @error kUnavailable when the answer cannot be had; never means allowed.
  using Done = std::function<void(Expected<Decision>)>;
  virtual ~Authorizer() = default;
  virtual void authorize(const Attributes& attributes, Done done) = 0;
};

/// The 403 of AM-014 to AM-019.
[[nodiscard]] Error denied(const Attributes& attributes, const Decision& decision);

}  // namespace kintsugi::auth
