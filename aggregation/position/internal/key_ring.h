#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aggregation/position/continue_token.h"
#include "base/error.h"
#include "base/secret.h"
#include "krm/json.h"

namespace kintsugi::aggregation {

/// The keys of continue tokens and session tickets as the store has them, and how one follows
/// another (GR-210): a new key is known everywhere before anything is made with it, and an old one
/// is accepted for as long as something that was made with it may come back. Pure.
class KeyRing {
 public:
  enum class State : std::uint8_t { kNext, kSigning, kAccepted };
  struct Key {
    std::uint8_t id = 0;
    Secret secret;
    std::int64_t since = 0;  ///< of the state [s since 1970]
    State state = State::kSigning;
  };
  /// How long a key that was replaced is accepted [s].
  static constexpr std::int64_t kAcceptedFor = 86'400;
  static constexpr std::size_t kMost = 8;

  KeyRing() = default;
  /// Of an installation whose keys were never changed.
  [[nodiscard]] static KeyRing of(Secret first);
  /// @error kCorrupt
  [[nodiscard]] static Expected<KeyRing> from_json(const krm::Json& record);
  [[nodiscard]] krm::Json to_json() const;

  /// The one that signs, then the others.
  [[nodiscard]] TokenKeys keys() const;
  [[nodiscard]] bool empty() const noexcept { return keys_.empty(); }
  [[nodiscard]] bool has_next() const noexcept;

  /// @{ What comes after it; false: it stays as it is.
  /// One key is on its way at a time, and there are not more than kMost.
  bool add_next(Secret secret, std::int64_t now);
  /// All have seen the next one: it signs.
  bool promote(std::int64_t now);
  bool drop_old(std::int64_t now);  /// @}
  /// When drop_old() has something to do; nullopt: never.
  [[nodiscard]] std::optional<std::int64_t> next_drop() const;

 private:
  [[nodiscard]] std::uint8_t free_id() const;
  std::vector<Key> keys_;
  krm::Json others_ = krm::Json::object();  // members of later programs
};

}  // namespace kintsugi::aggregation
