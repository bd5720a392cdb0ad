#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::shards {

/// Which lines the log gets about servers: one for all loops of the process, which notice the same
/// fault each for itself. Memory: one entry for each server that ever failed. Threads: any.
class FaultLog {
 public:
  enum class State : std::uint8_t { kUp, kSilent, kDown };
  [[nodiscard]] static FaultLog& of_process();

  /// Whether a line is due: the server is worse than was told, or up after it was told to be down.
  /// That it is silent is told once a second at most.
  [[nodiscard]] bool note(std::string_view server, State state, TimePoint now);

 private:
  struct Told {
    State state = State::kUp;
    TimePoint silent_at{};
  };
  std::mutex mutex_;
  StringMap<Told> servers_;  // guarded by mutex_
};

}  // namespace kintsugi::shards
