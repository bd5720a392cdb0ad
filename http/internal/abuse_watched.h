#pragma once

#include "http/abuse.h"

namespace kintsugi::http {

/// What server sessions are besides: see http/abuse_watch.h.
class AbuseWatched {
 public:
  virtual void set_abuse(AbuseCounters& counters, bool speaks_for_many) noexcept = 0;

 protected:
  ~AbuseWatched() = default;
};

}  // namespace kintsugi::http
