#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>

#include "base/time.h"

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::kinds {

/// What admission webhooks have done in this process: apiserver_admission_webhook_… as the
/// reference has them, but without `name`, since names are tenants'. Threads: any.
class WebhookTotals {
 public:
  /// How a call ended.
  struct Call {
    bool mutating = false;
    std::string_view operation;   ///< CREATE, UPDATE, DELETE, CONNECT
    std::string_view error_type;  ///< of a rejection; "": none
    int code = 0;
    bool failed_open = false;
    Duration took{};
  };
  void count(const Call& call);
  void fill(MetricFamilies& out) const;

 private:
  static constexpr std::array<double, 8> kBounds = {0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25};  // [s]
  struct Times {
    std::array<std::uint64_t, kBounds.size() + 1> counts{};
    double sum = 0;
  };
  using Operation = std::tuple<bool, std::string_view>;
  mutable std::mutex mutex_;
  std::map<std::tuple<Operation, int, bool>, std::uint64_t> requests_;  // code, rejected
  std::map<std::tuple<Operation, std::string_view, int>, std::uint64_t> rejections_;
  std::map<std::tuple<Operation, bool>, Times> times_;  // rejected
  std::array<std::uint64_t, 2> failed_open_{};
};
[[nodiscard]] WebhookTotals& webhook_totals() noexcept;

}  // namespace kintsugi::kinds
