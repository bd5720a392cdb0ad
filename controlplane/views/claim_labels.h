#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "controlplane/views/internal/binding_index.h"
#include "krm/json.h"

/// The labels that let exports see claimed objects (claims.h). Only the system sets them: at every
/// write (keep_claim_labels) and, when bindings change, by ClaimLabeller.
namespace kintsugi::controlplane {

/// Which resource an object is of.
struct ClaimedResource {
  std::string_view group, resource, identity;
};

/// The labels that the object must have because of accepted claims in its cluster; an APIBinding
/// also has those of its own export.
[[nodiscard]] std::map<std::string, std::string> claim_labels(const BindingIndex& bindings,
                                                              const IdentityCheck& in_root,
                                                              std::string_view cluster,
                                                              const ClaimedResource& resource,
                                                              const krm::Json& object);
/// Whether it has those and no others with their prefix.
[[nodiscard]] bool has_claim_labels(const BindingIndex& bindings, const IdentityCheck& in_root,
                                    std::string_view cluster, const ClaimedResource& resource,
                                    const krm::Json& object);

/// Of AdmissionStep::prepare: gives the object the labels that it must have, whatever was sent
/// (AM-508, KK-229).
[[nodiscard]] Expected<void> keep_claim_labels(const BindingIndex& bindings,
                                               const IdentityCheck& in_root,
                                               const apiserver::WriteContext& context,
                                               const apiserver::ResourceDef& def,
                                               krm::Json& object);
/// The step that does it. Both outlive it.
[[nodiscard]] std::unique_ptr<apiserver::AdmissionStep> claim_labels_step(
    const BindingIndex& bindings, const IdentityCheck& in_root);

/// For a server whose objects no claim reaches: nobody adds one. @error kForbidden that of above.
[[nodiscard]] Expected<void> refuse_claim_labels(const apiserver::ResourceDef& def,
                                                 const krm::Json& object, const krm::Json* old);

}  // namespace kintsugi::controlplane
