#pragma once

#include <string>
#include <string_view>

#include "workers/messaging/amqp/management_session.h"

struct pn_condition_t;
struct pn_connection_t;

namespace kintsugi::workers {

/// For people and logs: control bytes and what is no ASCII are '?', at most 512 bytes.
[[nodiscard]] std::string ascii_text(std::string_view text);
/// "<name>: <description>", "" when it is not set.
[[nodiscard]] std::string condition_text(pn_condition_t* condition);
/// What the open of the other side says; texts of at most 256 bytes.
[[nodiscard]] AmqpPeer peer_of(pn_connection_t* connection);

}  // namespace kintsugi::workers
