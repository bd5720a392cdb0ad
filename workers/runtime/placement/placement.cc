#include "workers/runtime/placement/placement.h"

#include <algorithm>

#include "workers/runtime/placement/internal/core.h"

namespace kintsugi::workers {

std::string_view pending_name(Pending reason) noexcept {
  switch (reason) {
    case Pending::kNone:
      return "";
    case Pending::kNoHosts:
      return "NoHosts";
    case Pending::kNoRoom:
      return "NoRoom";
    case Pending::kHostLimit:
      return "HostLimit";
    case Pending::kPinned:
      return "PinnedHostUnavailable";
    case Pending::kTooFew:
      return "NotEnoughHosts";
    case Pending::kUnitLimit:
      return "TooManyUnits";
    case Pending::kEntryRoom:
      return "NoEntryRoom";
  }
  return "";
}

Placement::Placement(Params params) : core_(std::make_unique<Core>(params)) {}
Placement::~Placement() = default;

Expected<void> Placement::host_changed(const Host& host) { return core_->host_changed(host); }
void Placement::host_gone(std::string_view id) { core_->host_gone(id); }
Placement::Loaded Placement::load(std::span<const Claim> claims) { return core_->load(claims); }
Expected<Delta> Placement::schedule(const Claim& claim) { return core_->schedule(claim); }
bool Placement::adopt(std::string_view key, std::span<const Placed> decided) {
  return core_->adopt(key, decided);
}
Delta Placement::release(std::string_view key) { return core_->release(key); }
void Placement::write_succeeded(std::string_view key, std::span<const Placed> written) {
  core_->write_succeeded(key, written);
}
void Placement::write_failed(std::string_view key) { core_->write_failed(key); }
std::vector<std::string> Placement::take_due() { return core_->take_due(); }
RequiredHosts Placement::required_hosts() { return core_->required_hosts(); }
std::vector<Delta> Placement::rebalance(std::int64_t budget) { return core_->rebalance(budget); }
std::vector<Delta> Placement::compact(std::int64_t budget) { return core_->compact(budget); }
std::int64_t Placement::tick_budget() const noexcept {
  return std::max<std::int64_t>(1, core_->placed_units() / 20);
}
std::vector<Placed> Placement::placements(std::string_view key) const {
  return core_->placements(key);
}
std::int64_t Placement::pending(std::string_view key) const { return core_->pending(key); }
std::int64_t Placement::room(std::string_view host) const { return core_->room(host); }
std::int64_t Placement::held(std::string_view host) const { return core_->held(host); }
std::size_t Placement::claims() const noexcept { return core_->claims(); }
std::int64_t Placement::placed_units() const noexcept { return core_->placed_units(); }
std::size_t Placement::pending_claims() const noexcept { return core_->pending_claims(); }

}  // namespace kintsugi::workers
