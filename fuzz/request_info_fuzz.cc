// "<method> <target>": the parts of a request agree with each other.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/request_info.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return 0;
  }
  std::string_view target = text.substr(space + 1);
  if (const auto cluster = kintsugi::krm::split_cluster_path(target)) {
    if (cluster->segment.empty() ||
        (!cluster->rest.empty() && cluster->rest.front() != '/' && cluster->rest.front() != '?')) {
      std::abort();
    }
    static_cast<void>(kintsugi::krm::is_workspace_path(cluster->segment));
    target = cluster->rest;
  }
  const kintsugi::krm::RequestInfo info =
      kintsugi::krm::parse_request_info(text.substr(0, space), target);
  if (info.is_resource == info.resource.empty() || (info.path_has_name && info.name.empty()) ||
      (!info.subresource.empty() && info.name.empty()) ||
      (info.is_resource && info.parts.empty())) {
    std::abort();
  }
  return 0;
}
