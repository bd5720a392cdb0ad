#pragma once

#include "krm/json.h"

/// APIExports and APIBindings between v1alpha2, in which they are stored, and v1alpha1. What
/// v1alpha1 cannot express travels in annotations under apis.v1alpha2.kcp.io/, and what v1alpha2
/// cannot express is kept in one, so that neither direction loses anything that clients wrote
/// (AM-497). An annotation that cannot be read, or has of the spec what the object does not have,
/// stays: admission refuses it (admission/export_admission.h). What is kept of a status belongs to
/// the status that is written with it, and to no other. Source: KK-147, KK-170.
namespace kintsugi::controlplane {

void export_from_storage(krm::Json& object);
void export_to_storage(krm::Json& object);
void binding_from_storage(krm::Json& object);
void binding_to_storage(krm::Json& object);

}  // namespace kintsugi::controlplane
