#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/time.h"

namespace kintsugi::serving {

/// Where the spans of a process go.
struct TraceParams {
  std::string
      endpoint;  ///< "http://127.0.0.1:4318": OTLP over HTTP; /v1/traces where it has no path
  std::string ca_file;       ///< of an https one; "": the machine's
  std::string headers_file;  ///< lines "name: value" that go with every request; "": none
  std::string service;       ///< service.name: "kintsugi-proxy"
  std::string instance;      ///< service.instance.id: a shard's name; "": none
  Duration timeout = seconds(10);
  Duration pause = seconds(1);  ///< between two batches, where less than a whole one is there
  /// Before a batch is sent again: doubled each time, and never more than 30 s.
  Duration retry = seconds(1);
};

/// Sends what record_span() gets to a collector: at most 512 in a request, one request at a time.
/// 429, 502, 503, 504 and no answer: again up to five times, after Retry-After where that is said;
/// anything else: dropped and counted, with a line in a minute. What is in the rings then is what
/// waits, and no more is kept. It has a thread of its own; nobody waits for it.
class TraceExporter {
 public:
  /// From now on spans are collected. @error kConfig, kIo: endpoint or files.
  [[nodiscard]] static Expected<std::unique_ptr<TraceExporter>> start(TraceParams params);
  /// Sends what there is, for at most 2 s.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

 private:
  class Thread;
  explicit TraceExporter(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

}  // namespace kintsugi::serving
