#pragma once

#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "controlplane/controllers/workspace_types.h"

/// What a Workspace gets and needs when it is written. Source: KK-040 to KK-059.
namespace kintsugi::controlplane {

/// A new workspace: owner annotation and required groups (what a user sends is overwritten, KK-040,
/// KK-041), type from the parent's default, path of the type, labels of the type, phase Scheduling.
/// Updates stay as they are.
void prepare_workspace(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context,
                       krm::Json& workspace, const krm::Json* old);

/// Whether the type of a new workspace exists; before the schema is asked, which the type's own
/// rules may depend on. @error (in done) kForbidden in kcp's words.
void admit_workspace(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context,
                     const krm::Json* workspace, const krm::Json* old,
                     apiserver::Hooks::AdmitDone done);

/// Whether the user may write what only the system knows (spec.cluster, spec.URL, the kind of the
/// workspace), and whether the type of a new one, with all that it extends, fits the parent and may
/// be used by him. @error (in done) kForbidden in kcp's words.
void approve_workspace(const WorkspaceTypeLookup& types, auth::Authorizer& authorizer,
                       const apiserver::WriteContext& context, const krm::Json* workspace,
                       const krm::Json* old, apiserver::Hooks::AdmitDone done);

/// KK-046, KK-047, KK-049 to KK-054: the part of approve_workspace that needs the objects alone.
/// @returns what the refusal says, "" when all is well.
[[nodiscard]] std::string workspace_fault(const apiserver::WriteContext& context,
                                          const krm::Json& workspace, const krm::Json* old);

}  // namespace kintsugi::controlplane
