#include "auth/audit_refusals.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace kintsugi::auth {

bool AuditRefusals::may_write(TimePoint now) noexcept {
  const std::int64_t second =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::int64_t before = second_.load();
  if (before < second && second_.compare_exchange_strong(before, second)) {
    bytes_ = 0;
  }
  if (bytes_.load() >= kBytesPerSecond) {
    ++left_out_;
    ++counted_;
    return false;
  }
  ++written_;
  return true;
}

AuditRefusals& audit_refusals() noexcept {
  static AuditRefusals all;
  return all;
}

bool is_refusal(int status) noexcept {
  constexpr std::array kRefusals{400, 401, 403, 405, 408, 413, 414, 417, 429, 431, 507, 508};
  return std::find(kRefusals.begin(), kRefusals.end(), status) != kRefusals.end();
}

}  // namespace kintsugi::auth
