// A kubeconfig: read, or refused with its name, and never with a token that is in it.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "krm/yaml.h"
#include "server/kubeconfig.h"

namespace {

constexpr std::string_view kCanary = "canary-of-a-token", kMember = "token: ";

/// A name may be told: whether the canary is nothing but a token.
bool is_token_only(std::string_view text) {
  for (std::size_t at = text.find(kCanary); at != std::string_view::npos;
       at = text.find(kCanary, at + 1)) {
    if (!text.substr(0, at).ends_with(kMember)) {
      return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::fuzz::check;
  std::string text(reinterpret_cast<const char*>(data), size);
  // No files but those below a folder that is not there.
  for (std::size_t at = text.find('/'); at != std::string::npos; at = text.find('/', at + 1)) {
    if (text.compare(at, 3, "//1") != 0) {
      text[at] = '.';
    }
  }
  const auto document = kintsugi::krm::parse_yaml(text);
  if (!document) {
    return 0;
  }
  for (const char* context : {"", "base"}) {
    const auto access =
        kintsugi::server::kube_access(*document, "/nowhere", "a.kubeconfig", context);
    if (!access) {
      const std::string told = access.error().to_string();
      check(!told.empty() && (!is_token_only(text) || told.find(kCanary) == std::string::npos));
    }
  }
  return 0;
}
