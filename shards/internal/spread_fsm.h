#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kintsugi::shards {

/// To which of the processes that serve the same a request goes (GR-301). One that is left out says
/// by /readyz that it is back, which is news of a second ago: so when the last one that answered is
/// lost, those that had been left out before may have come back, and get requests until one of
/// these fails, or they say that they are not ready. No sockets, no clock. Threads: one at a time.
class SpreadFsm {
 public:
  enum class State : std::uint8_t { kThere, kMaybe, kAway };

  /// The first place is there from the beginning, each further one when it is ready.
  void add();
  void erase(std::size_t place);
  void put_first(std::size_t place);

  /// How many connection-level failures in a row a place has now; for each place, before settle().
  void note(std::size_t place, std::uint32_t failures) noexcept;
  /// @returns whether the last place that answered has just been lost
  [[nodiscard]] bool settle() noexcept;
  /// What a place that was asked has said of itself; nullopt: nothing.
  void on_said(std::size_t place, std::optional<bool> ready) noexcept;

  /// @param first  the first place has it while that is there: writes
  [[nodiscard]] std::size_t choose(bool first) noexcept;
  [[nodiscard]] State state(std::size_t place) const noexcept { return places_[place].state; }
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] bool has(State state) const noexcept;

 private:
  struct Place {
    State state = State::kAway;
    bool lost = false;     ///< since the last settle()
    bool unready = false;  ///< said so when it was asked last
    std::uint32_t failures = 0;
    std::uint32_t before = 0;  ///< failures when it became kMaybe
  };
  std::vector<Place> places_;
  std::size_t turn_ = 0;
  bool answered_ = false;  ///< at the last settle() somebody was there
};

}  // namespace kintsugi::shards
