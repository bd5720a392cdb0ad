// Configurations of workers: taken, and what is rendered reads as the same; or refused with the
// file and what is wrong.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "server/worker_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> known{"example", "messaging"};
  const auto config = server::parse_worker_config(text, "/etc/worker.yaml", known);
  if (!config) {
    fuzz::check(config.error().message().starts_with("/etc/worker.yaml"));
    return 0;
  }
  const std::string rendered = server::render_worker_config(*config);
  const auto again = server::parse_worker_config(rendered, "/etc/worker.yaml", known);
  fuzz::check(again.has_value());
  fuzz::check(server::render_worker_config(*again) == rendered);
  return 0;
}
