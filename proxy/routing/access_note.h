#pragma once

#include <cstddef>
#include <string>

#include "base/time.h"

namespace kintsugi::proxy {

/// What those on a request's way tell the access log (gates/access_gate.h).
struct AccessNote {
  std::string shard = {};    ///< by name; "": of none, or of several
  std::string cluster = {};  ///< the logical cluster that the path led to
  std::string user = {};     ///< who asks; "": nobody knows
  std::size_t groups = 0;
  bool is_served_here = false, is_merged = false, has_no_route = false;
  // Of one that is forwarded to one server.
  TimePoint sent{};                  ///< the first time; not set: it was not
  Duration upstream = Duration(-1);  ///< from then to the end of the answer, of a watch to its head
  bool was_retried = false;
  bool is_drained = false;  ///< was ended in order by the proxy
  /// Why it has no whole answer of the server: connection or TLS, none in time, nobody who is up,
  /// lost.
  bool connect_failed = false, timed_out = false, none_up = false, was_lost = false;
};

}  // namespace kintsugi::proxy
