#pragma once

#include <proton/codec.h>

#include "krm/json.h"

namespace kintsugi::workers {

// AMQP values of Proton as JSON, and back. Integers go as int if they fit, else as long.

/// The value at which `data` stands; null for what JSON has no word for, or deeper than 32.
[[nodiscard]] krm::Json json_of(pn_data_t* data, int depth = 0);
void put_json(pn_data_t* data, const krm::Json& value);

}  // namespace kintsugi::workers
