#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "serving/process_limits.h"

namespace kintsugi::cmd {

/// Options of `kintsugi shard` about who has to wait, and who is refused (R-30, SE-080).
struct LimitOptions {
  std::uint32_t seats = 0;          ///< of the process; 0: by the machine's cores
  std::vector<std::string> limits;  ///< "user.rps=100", …: the keys of `limits` of proxy.yaml
  /// @error kConfig names what is wrong with --limits.
  [[nodiscard]] Expected<serving::RequestLimits> requests() const;
  /// The same, and what clients may have open.
  [[nodiscard]] Expected<serving::RequestLimits> parse(serving::OpenLimits& open) const;
  /// @param loops  of the process
  /// @error as above
  [[nodiscard]] Expected<std::shared_ptr<serving::ProcessLimits>> make(std::size_t loops) const;
};

/// Rows for the group Limits.
void add_limit_flags(LimitOptions& options, std::vector<Flag>& flags);

}  // namespace kintsugi::cmd
