#include "base/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <thread>

#include "base/internal/control_groups.h"

namespace kintsugi {
namespace {

unsigned cpus_to_run_on() {
  constexpr int kMost = 16'384;
  cpu_set_t* const set = CPU_ALLOC(kMost);
  if (set == nullptr) {
    return std::max(1U, std::thread::hardware_concurrency());
  }
  const bool known = ::sched_getaffinity(0, CPU_ALLOC_SIZE(kMost), set) == 0;
  const int count = known ? CPU_COUNT_S(CPU_ALLOC_SIZE(kMost), set) : 0;
  CPU_FREE(set);
  return count > 0 ? static_cast<unsigned>(count)
                   : std::max(1U, std::thread::hardware_concurrency());
}

/// nullopt: no quota, or one that makes no sense.
std::optional<double> share(double microseconds, double period) {
  return microseconds > 0 && period > 0 ? std::optional(microseconds / period) : std::nullopt;
}

/// "max 100000", "150000 100000"
std::optional<double> second_version(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? share(quota, period) : std::nullopt;
}

std::optional<double> first_version(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"),
      period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? share(quota, period) : std::nullopt;
}

}  // namespace

unsigned CpuLimit::cores() const noexcept {
  const double of_quota = quota > 0 ? std::ceil(quota) : static_cast<double>(allowed);
  return std::max(1U, static_cast<unsigned>(std::min(of_quota, static_cast<double>(allowed))));
}

std::string_view CpuLimit::bound() const noexcept {
  return quota > 0 && std::ceil(quota) < static_cast<double>(allowed)
             ? "the CPU quota of the control group"
             : "the CPUs it may run on";
}

CpuLimit cpu_limit(const std::string& root) {
  CpuLimit out;
  out.allowed = cpus_to_run_on();
  for (const ControlGroups& groups : control_groups("cpu", root)) {
    for (const std::string& folder : groups.folders) {
      const auto quota = groups.is_second ? second_version(folder) : first_version(folder);
      if (quota && (out.quota == 0 || *quota < out.quota)) {
        out.quota = *quota;
      }
    }
  }
  return out;
}

unsigned usable_cores() {
  static const unsigned kCores = cpu_limit().cores();
  return kCores;
}

}  // namespace kintsugi
