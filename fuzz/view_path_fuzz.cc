// A request target below "/services/": whatever is taken apart adds up to the target again, and
// nothing is empty.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "controlplane/views/view_resolver.h"

using kintsugi::controlplane::split_view_path;
using kintsugi::controlplane::ViewPath;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kStart = "/services/apiexport";
  kintsugi::http::RequestHead head;
  head.method = "GET";
  head.target = std::string(kStart) + std::string(reinterpret_cast<const char*>(data), size);
  const std::string_view rest = std::string_view(head.target).substr(kStart.size());
  for (std::size_t segments = 0; segments < 3; ++segments) {
    const std::optional<ViewPath> path = split_view_path({head, {}, "apiexport", rest}, segments);
    if (!path) {
      continue;
    }
    bool fine = path->segments.size() == segments && !path->cluster.empty() &&
                path->api_root + std::string(path->api_path) == head.target;
    for (const std::string& segment : path->segments) {
      fine = fine && !segment.empty();
    }
    if (!fine) {
      std::abort();
    }
  }
  return 0;
}
