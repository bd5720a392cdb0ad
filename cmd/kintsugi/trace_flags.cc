#include "cmd/kintsugi/trace_flags.h"

#include <cstdint>

#include "net/upstream.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kAll = 1'000'000;

}  // namespace

FlagGroup trace_flags(serving::TracingConfig& config) {
  return {"Traces",
          {{"tracing-endpoint", "URL", "",
            "where spans go, by OTLP over HTTP: http://127.0.0.1:4318; without it there are none",
            into(config.endpoint)},
           {"tracing-sampling-per-million", "N", "0", "traces that are recorded, of 1,000,000",
            into(config.rules.per_million)},
           {"tracing-ca-file", "FILE", "the machine's", "CA of an https endpoint",
            into(config.ca_file)},
           {"tracing-headers-file", "FILE", "",
            "lines NAME: VALUE that go with every request to it, such as a token",
            into(config.headers_file)}}};
}

Expected<void> understand(serving::TracingConfig& config) {
  if (config.rules.per_million > kAll) {
    return fail(Errc::kConfig, "--tracing-sampling-per-million: must be 0 to 1000000");
  }
  const auto url = net::Url::parse(config.endpoint);
  if (!config.endpoint.empty() && !url) {
    return fail(Errc::kConfig, "--tracing-endpoint: " + std::string(url.error().message()));
  }
  for (std::string* file : {&config.ca_file, &config.headers_file}) {
    if (!file->empty()) {
      *file = server::absolute_path(*file);
    }
  }
  return {};
}

std::vector<std::string> arguments_of(const serving::TracingConfig& config) {
  if (config.endpoint.empty()) {
    return {};
  }
  std::vector<std::string> out = {
      "--tracing-endpoint=" + config.endpoint,
      "--tracing-sampling-per-million=" + std::to_string(config.rules.per_million)};
  if (!config.ca_file.empty()) {
    out.push_back("--tracing-ca-file=" + config.ca_file);
  }
  if (!config.headers_file.empty()) {
    out.push_back("--tracing-headers-file=" + config.headers_file);
  }
  return out;
}

}  // namespace kintsugi::cmd
