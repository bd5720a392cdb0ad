#pragma once

#include <map>
#include <string>
#include <string_view>

#include "apiserver/admission.h"
#include "cel/access.h"
#include "kinds/policies/internal/match.h"
#include "krm/json.h"

/// What admission policies see of a write (AdmissionRequest of admission.k8s.io/v1).
namespace kintsugi::kinds {

/// Attributes of a request that do not depend on the version as which a policy matched it.
struct PolicyRequest {
  std::string operation;
  GroupVersionName resource, kind;
  std::string subresource, ns, name;
  krm::Json user, options;
  bool dry_run = false;

  /// The variable `request`. @param resource, kind  as which it was matched.
  [[nodiscard]] krm::Json document(const GroupVersionName& matched_resource,
                                   const GroupVersionName& matched_kind) const;
  /// `authorizer.requestResource`, without a verb.
  [[nodiscard]] cel::AccessQuestion access_question() const;
};

[[nodiscard]] PolicyRequest policy_request(const apiserver::PendingWrite& write,
                                           const apiserver::Review& review);

/// The variable `namespaceObject`.
[[nodiscard]] krm::Json namespace_document(const krm::Json& object);

/// Takes away what the server adds to every object, so that policies see it as it was written.
void hide_cluster(krm::Json& object);

}  // namespace kintsugi::kinds
