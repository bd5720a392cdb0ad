#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::workers {

/// Spaces the status writes of objects (RT-81): at most one a second and object, of several the
/// latest; a transition of `Ready` goes at once, but itself at most once a second, so that a
/// flapping object costs one write a second as well. Bodies of any form; whoever holds none keeps
/// no memory a second after its last write. Limits: max_objects, max_bytes of held bodies; beyond
/// them bodies are not held but go at once (counted). No clock. Threads: one at a time.
class StatusPacer {
 public:
  struct Params {
    Duration interval = seconds(1);
    std::size_t max_objects = 65'536;
    std::size_t max_bytes = 16U << 20U;
  };
  explicit StatusPacer(const Params& params) : params_(params) {}

  /// @returns the body when it is to be written now; nullopt: it is held, in place of what was held
  ///          for that object before.
  /// @param key               names the object.
  /// @param ready_transition  `Ready` differs from what the server has (is_transition).
  [[nodiscard]] std::optional<std::string> offer(std::string_view key, std::string body,
                                                 bool ready_transition, TimePoint now);
  struct Due {
    std::string key;
    std::string body;
  };
  /// A held body whose time has come; call until nullopt.
  [[nodiscard]] std::optional<Due> take_due(TimePoint now);
  /// Drops what is held: the object is gone, or the server has what is wanted.
  void withdraw(std::string_view key);
  /// When take_due() should be called, at the latest; nullopt: no body is held or remembered.
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;

  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] std::size_t objects() const noexcept { return objects_.size(); }
  [[nodiscard]] std::uint64_t unpaced() const noexcept { return unpaced_; }

 private:
  struct Object {
    TimePoint next{};        // of any write
    TimePoint next_ready{};  // of a transition
    std::optional<std::string> body;
    bool transition = false;  // one was offered since the last write
  };
  struct Timer {
    TimePoint at;
    std::string key;
  };
  void note_write(std::string_view key, Object& object, bool transition, TimePoint now);
  void drop_body(Object& object) noexcept;

  Params params_;
  StringMap<Object> objects_;
  std::deque<Timer> timers_;  // in order: all are `interval` ahead when they begin
  std::size_t held_ = 0;
  std::size_t held_bytes_ = 0;
  std::uint64_t unpaced_ = 0;
};

}  // namespace kintsugi::workers
