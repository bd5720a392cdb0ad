#pragma once

#include <functional>

#include "apiserver/resource.h"
#include "endpointslice/slice_builder.h"
#include "proxy/config/config.h"
#include "proxy/gates/bind_check.h"

/// What the proxy lets into its store of APIExportEndpointSlices (T-13, TP-042).
namespace kintsugi::server {

/// May this user bind the export? As proxy::BindCheck::check.
using AskBind =
    std::function<void(proxy::BindCheck::Question, std::function<void(Expected<void>)> done)>;

/// True when an update gives the slice another export than it names now.
[[nodiscard]] bool changes_export(const krm::Json* object, const krm::Json* old);

/// Admission on its own: a create and an update that changes the export need the right to bind it;
/// warns of unknown annotation values. Status, deletes and other updates pass. A slice without
/// `spec.export` or its name is for the schema to refuse. As hooks.admit.
/// @error kForbidden the name of the export is empty; else what `ask` answers.
void admit_slice(const AskBind& ask, const endpointslice::Regions& regions,
                 const apiserver::WriteContext& context, const krm::Json* object,
                 const krm::Json* old, apiserver::Hooks::AdmitDone done);

/// The kind with this as its admission. Changed exports are left to the rule that exports are
/// immutable: it comes after admission here, and clients have to see its 422 in every case.
/// @param binds outlives the kind.
[[nodiscard]] apiserver::ResourcePtr admitted_slice_kind(proxy::BindCheck& binds,
                                                         const proxy::ProxyConfig& config);

}  // namespace kintsugi::server
