// A target below /services/: what is taken apart is put together again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/service_path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::krm::parse_service_path;
  const std::string target = "/services/" + std::string(reinterpret_cast<const char*>(data), size);
  const auto path = parse_service_path(target);
  if (!path) {
    return 0;
  }
  if (!path->trail.empty() && path->trail.front() != '/' && path->trail.front() != '?') {
    std::abort();
  }
  const std::string again = kintsugi::krm::service_target(*path, "owner", "cluster");
  const auto second = parse_service_path(again);
  if (!second || second->kind != path->kind || second->object != path->object ||
      second->type.empty() != path->type.empty() || second->trail != path->trail ||
      second->owner != (path->owner.empty() ? "" : "owner") ||
      second->cluster != (path->cluster.empty() ? "" : "cluster")) {
    std::abort();
  }
  return 0;
}
