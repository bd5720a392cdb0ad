#pragma once

#include <string>

#include "apiserver/resource.h"

/// Rules of APIExports, and what APIExports and APIBindings keep of their other version.
/// Source: KK-140, KK-141, KK-143, KK-147, KK-170.
namespace kintsugi::controlplane {

/// What is wrong with claims and schemas that `old` (null: none) does not have; "" when nothing is.
[[nodiscard]] std::string export_fault(const krm::Json& object, const krm::Json* old);

/// What is wrong with annotations of v1alpha1, in an object of the storage version: those that
/// conversion could not use are still there. "" when nothing is, or when `old` has them already.
[[nodiscard]] std::string version_annotation_fault(const krm::Json& object, const krm::Json* old);

/// The same of what APIBindings keep of their status: it must be readable.
[[nodiscard]] std::string status_annotation_fault(const krm::Json& object, const krm::Json* old);

/// @error (in done) kForbidden; also for a status, which is the system's: the identity says whose
/// objects the export's virtual workspace shows.
void approve_export(const apiserver::WriteContext& context, const krm::Json* object,
                    const krm::Json* old, const apiserver::Hooks::AdmitDone& done);

}  // namespace kintsugi::controlplane
