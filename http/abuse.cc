#include "http/abuse.h"

#include "http/abuse_watch.h"
#include "http/internal/abuse_watched.h"
#include "http/session.h"

namespace kintsugi::http {

void watch_abuse(Session& session, AbuseCounters& counters, bool speaks_for_many) noexcept {
  if (auto* watched = dynamic_cast<AbuseWatched*>(&session)) {
    watched->set_abuse(counters, speaks_for_many);
  }
}

std::string_view abuse_name(Abuse kind) noexcept {
  static constexpr std::array<std::string_view, kAbuseKinds> kNames = {
      "reset",      "made_reset",    "continuation", "hpack",      "head",
      "authority",  "field",         "ping",         "settings",   "priority",
      "empty_data", "window_update", "unread",       "small_data", "padding",
      "framing",    "slow_body",     "refused",      "unknown"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace kintsugi::http
