#pragma once

#include "http/abuse.h"

namespace kintsugi::http {

class Session;

/// From now on a session of make_h1_server or make_h2_server counts what its peer does.
/// @param counters         must outlive what the session is fed
/// @param speaks_for_many  the peer is a proxy of ours: nobody counts its resets (SE-126)
void watch_abuse(Session& session, AbuseCounters& counters, bool speaks_for_many) noexcept;

}  // namespace kintsugi::http
