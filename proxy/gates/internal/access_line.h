#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "krm/request_info.h"
#include "proxy/routing/access_note.h"

/// Lines of the access log (OP-306). Nothing of a query, a header that authenticates, or a body.
namespace kintsugi::proxy {

struct AccessEvent {
  std::int64_t at = 0;  ///< when it came [µs since 1970]
  Duration took = Duration(),
           first = Duration(-1);  ///< to the end, to the answer's head; < 0: none
  std::string_view method, target, address, agent, audit_id;
  int version = 2;                ///< of HTTP
  std::string_view trace_parent;  ///< header; whatever was sent
  const krm::RequestInfo& info;
  const AccessNote& note;
  int code = 0;                   ///< 0: there was no answer
  std::uint64_t in = 0, out = 0;  ///< body bytes from and to the client
  bool was_cut = false;           ///< the answer ended before its end
  bool client_went = false;       ///< since the client did not want it any more
  bool was_evicted = false;       ///< since the client did not read, or memory ran short
};

/// "DC", "LO,RL": why it went as it did; "-": nothing to tell (docs/configuration.md).
[[nodiscard]] std::string access_flags(const AccessEvent& event);
/// One object, without the end of the line.
[[nodiscard]] std::string access_json(const AccessEvent& event);
/// Common Log Format with milliseconds, shard, flags and audit id behind it.
[[nodiscard]] std::string access_text(const AccessEvent& event);

/// Whether a line is written whatever the sample.
[[nodiscard]] bool always_told(const AccessEvent& event, bool goes_on, Duration slow) noexcept;

}  // namespace kintsugi::proxy
