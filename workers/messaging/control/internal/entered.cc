#include "workers/messaging/control/internal/entered.h"

#include <algorithm>

#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

std::string EnteredAddress::broker_name(std::string_view qualified) const {
  if (!named) {
    return {};
  }
  const bool has_class = settings_class[0] != 0;
  return kintsugi::workers::broker_name(
      has_class ? std::string_view(settings_class.data(), settings_class.size())
                : std::string_view(),
      qualified);
}

const std::array<std::string_view, 6>& address_phases() noexcept {
  static constexpr std::array<std::string_view, 6> kPhases{"",       "Pending", "Configuring",
                                                           "Active", "Failed",  "Terminating"};
  return kPhases;
}

std::uint8_t address_phase(std::string_view text) noexcept {
  const auto& all = address_phases();
  const auto at = std::find(all.begin(), all.end(), text);
  return at == all.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(at - all.begin());
}

}  // namespace kintsugi::workers
