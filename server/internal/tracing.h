#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/trace.h"
#include "serving/trace_exporter.h"
#include "serving/trace_gate.h"

namespace kintsugi::server {

/// From now on spans of this process are collected and sent. Null where no endpoint is named.
/// @param service,instance  as of serving::TraceParams
/// @error kConfig, kIo: the key is named
[[nodiscard]] inline Expected<std::unique_ptr<serving::TraceExporter>> start_tracing(
    const serving::TracingConfig& config, const std::string& service, const std::string& instance) {
  if (config.endpoint.empty()) {
    return std::unique_ptr<serving::TraceExporter>();
  }
  set_trace_share(config.rules.per_million);
  serving::TraceParams params;
  params.endpoint = config.endpoint;
  params.ca_file = config.ca_file;
  params.headers_file = config.headers_file;
  params.service = service;
  params.instance = instance;
  return serving::TraceExporter::start(std::move(params));
}

}  // namespace kintsugi::server
