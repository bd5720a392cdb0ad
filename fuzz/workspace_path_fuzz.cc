// A server URL and what a user types after it ("<url>\n<workspace>"): paths are valid or refused.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cmd/kintsugi/workspace_path.h"
#include "krm/request_info.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  const auto url = cmd::parse_workspace_url(text.substr(0, end));
  if (url && !url->path.empty()) {
    const auto again = cmd::parse_workspace_url(url->at(url->path));
    if (!krm::is_workspace_path(url->path) || !again || !(*again == *url)) {
      std::abort();
    }
  }
  const std::string_view wanted = end == std::string_view::npos ? "" : text.substr(end + 1);
  const auto path = cmd::resolve_workspace(url ? url->path : "", wanted, "user:alice");
  if (!path) {
    return 0;
  }
  const cmd::WorkspaceName name = cmd::split_workspace(*path);
  if (!krm::is_workspace_path(*path) ||
      (name.parent.empty() ? name.name : name.parent + ":" + name.name) != *path) {
    std::abort();
  }
  return 0;
}
