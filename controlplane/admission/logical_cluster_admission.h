#pragma once

#include <memory>
#include <string>

#include "apiserver/admission.h"
#include "apiserver/resource.h"

/// Who may change what of a LogicalCluster. Source: KK-090 to KK-102. Annotations and labels are
/// those of reserved_metadata.h; that only few may write its status at all is authorization's
/// (shard_access.h). Plain functions; no state.
namespace kintsugi::controlplane {

/// Of AdmissionStep::receive for this kind: finalizers are changed by those whom KK-091 exempts
/// and by administrators alone (KK-102). @error kForbidden
[[nodiscard]] Expected<void> receive_logical_cluster(const apiserver::WriteContext& context,
                                                     const apiserver::ResourceDef& def,
                                                     const krm::Json& object, const krm::Json* old);
/// The step that does it.
[[nodiscard]] std::unique_ptr<apiserver::AdmissionStep> logical_cluster_step();

/// Of Hooks::prepare: what holds the object is there until it is deleted (KK-090), and phase,
/// labels and finalizer follow from its status (lifecycle.h).
void prepare_logical_cluster(krm::Json& object, const krm::Json* old);

/// Of Hooks::approve: made and deleted by the system only, unless the object says otherwise; spec
/// never changes, status goes forward. @error kForbidden in kcp's words.
void approve_logical_cluster(const apiserver::WriteContext& context, const krm::Json* object,
                             const krm::Json* old, const apiserver::Hooks::AdmitDone& done);

/// KK-096, KK-097: what is wrong with a status that somebody writes who is not exempt; "": nothing.
[[nodiscard]] std::string cluster_status_fault(const krm::Json& now, const krm::Json& old);

}  // namespace kintsugi::controlplane
