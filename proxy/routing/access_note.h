#pragma once

#include <cstddef>
#include <string>

namespace kintsugi::proxy {

/// What those on a request's way tell the access log (gates/access_gate.h).
struct AccessNote {
  std::string shard = {};    ///< by name; "": of none, or of several
  std::string cluster = {};  ///< the logical cluster that the path led to
  std::string user = {};     ///< who asks; "": nobody knows
  std::size_t groups = 0;
  bool is_served_here = false, is_merged = false, has_no_route = false;
};

}  // namespace kintsugi::proxy
