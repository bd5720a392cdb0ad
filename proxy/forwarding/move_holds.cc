#include "proxy/forwarding/move_holds.h"

namespace kintsugi::proxy {

void MoveHoldStats::add(const MoveHoldStats& other) noexcept {
  waiting += other.waiting;
  bytes += other.bytes;
  held += other.held;
  refused += other.refused;
  given_up += other.given_up;
}

MoveHolds::Hold::Hold(MoveHolds& owner, std::size_t bytes, TimePoint until) noexcept
    : owner_(owner), bytes_(bytes), until_(until) {
  ++owner_.stats_.held;
  ++owner_.stats_.waiting;
  owner_.stats_.bytes += bytes_;
}

MoveHolds::Hold::~Hold() {
  --owner_.stats_.waiting;
  owner_.stats_.bytes -= bytes_;
}

std::unique_ptr<MoveHolds::Hold> MoveHolds::enter(std::size_t bytes, TimePoint now) {
  if (stats_.waiting >= limits_.count || stats_.bytes + bytes > limits_.bytes) {
    ++stats_.refused;
    return nullptr;
  }
  return std::make_unique<Hold>(*this, bytes, now + limits_.time);
}

}  // namespace kintsugi::proxy
