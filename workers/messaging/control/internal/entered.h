#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "workers/messaging/model/age.h"
#include "workers/messaging/model/by_number.h"
#include "workers/messaging/model/claims.h"

namespace kintsugi::workers {

/// What an address has claimed of its infra and space. 52 bytes: there are 100,000s of them.
struct EnteredAddress {
  Age age;
  OldestWins::Key name{};  ///< of conflict_key() of Q
  ObjectId space = 0;      ///< number of the space
  AddressType type = AddressType::kQueue;
  std::uint8_t phase = 0;                 ///< as its status says, of address_phases()
  bool named = false;                     ///< N is chosen
  bool keeps = false;                     ///< is refused now, and has what it was before
  bool said = false;                      ///< its status says N: others may refer to it
  std::array<char, 10> settings_class{};  ///< of N; begins with 0 if it has none

  /// N. @param qualified  Q. @returns "" before it is chosen
  [[nodiscard]] std::string broker_name(std::string_view qualified) const;
};

/// Phases of addresses; the first is none.
[[nodiscard]] const std::array<std::string_view, 6>& address_phases() noexcept;
/// Place in address_phases(); 0: it is no phase.
[[nodiscard]] std::uint8_t address_phase(std::string_view text) noexcept;

/// Those of one infra.
using EnteredTable = ByNumber<EnteredAddress>;

}  // namespace kintsugi::workers
