#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/fleet/fleet.h"

namespace kintsugi::proxy {

/// What the proxy knows of its fleet (source `clusterprofiles`, GR-704).
struct FleetReport {
  struct List {
    std::string path;
    bool listed = false;
    int status = 0;     ///< of the last refusal
    std::string cause;  ///< of the last failure
  };
  std::string hub;  ///< its URL
  std::vector<List> lists;
  std::vector<topology::FleetRow> rows;
  std::array<std::uint64_t, topology::kFleetReasons> faults{};
};

}  // namespace kintsugi::proxy
