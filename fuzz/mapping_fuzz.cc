// A mapping file, and paths taken from its own bytes: what matches is a prefix by whole segments.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/routing/route_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::proxy::RouteTable;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto entries = kintsugi::proxy::parse_mapping(text, "mapping.yaml");
  if (!entries) {
    return 0;
  }
  const RouteTable table(std::move(*entries));
  for (const auto& entry : table.entries()) {
    if (entry.is_clusters()) {
      continue;
    }
    std::string path;
    for (const std::string& segment : entry.segments) {
      path += segment.front() == '{' ? "/root" : "/" + segment;
    }
    const RouteTable::Match match = table.find(path.empty() ? "/" : path);
    if (match.entry == nullptr || match.depth != entry.segments.size()) {
      std::abort();
    }
    const RouteTable::Match below = table.find(path + "/below/clusters/x");
    if (below.entry == nullptr || below.depth < match.depth) {
      std::abort();
    }
  }
  return 0;
}
