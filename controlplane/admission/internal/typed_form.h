#pragma once

#include "krm/json.h"
#include "krm/schema.h"

/// kcp's admission reads some kinds into its own structs and writes them out again before their
/// schema is asked (KK-019): what is then there is what a client sees, and what the schema judges.
namespace kintsugi::controlplane {

/// Gives a value the form that such a struct has: required members that are missing are zero ("",
/// 0, false, an object of such members, null for a list), optional ones that are zero or null go.
/// @param schema  of the value; members that it does not know stay.
/// @returns false, and the value as it was, when something in it has another type: that is the
///          schema's to say.
bool to_typed_form(const krm::Schema& schema, krm::Json& value);

}  // namespace kintsugi::controlplane
