#pragma once

#include "apiserver/resource.h"
#include "apiserver/shard/workspace_types.h"
#include "auth/authorizer.h"

/// What a Workspace gets and needs when it is written (specs/api-machinery.md AM-483, AM-485).
namespace kintsugi::apiserver {

/// A new workspace: type from the parent's default, path of the type, owner annotation, labels of
/// the type, phase Scheduling. Updates stay as they are.
void prepare_workspace(const WorkspaceTypeLookup& types, const WriteContext& context,
                       krm::Json& workspace, const krm::Json* old);

/// Whether the type exists, fits the parent and may be used by the user; mounts need a reference.
/// @error (in done) kForbidden in kcp's words.
void admit_workspace(const WorkspaceTypeLookup& types, auth::Authorizer& authorizer,
                     const WriteContext& context, const krm::Json* workspace, const krm::Json* old,
                     Hooks::AdmitDone done);

}  // namespace kintsugi::apiserver
