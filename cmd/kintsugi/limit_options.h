#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "serving/process_limits.h"
#include "store/books.h"

namespace kintsugi::cmd {

/// Options of `kintsugi shard` and `kintsugi up` about who has to wait, and who is refused (R-30,
/// SE-080).
struct LimitOptions {
  std::uint32_t seats = 0;          ///< of the process; 0: by the machine's cores
  std::vector<std::string> limits;  ///< "user.rps=100", …: the keys of `limits` of proxy.yaml
  std::vector<std::string> quotas;  ///< "objects=1000", "writes.rps=50", …: of each workspace
  std::string file = {};            ///< more of `limits`, a line each; "": none
  bool of_proxy = false;            ///< keys that only a proxy has are known, too
  std::vector<std::string> distributed_users{};  ///< see serving::ProcessLimits
  /// @error kConfig names what is wrong with --limits or the file.
  [[nodiscard]] Expected<serving::RequestLimits> requests() const;
  /// What a workspace may have where its LogicalCluster does not say otherwise (SE-093).
  struct Quotas {
    store::Sums sums = store::no_limits();
    serving::LimitRule writes, watches;
  };
  /// @error kConfig names what is wrong with --quotas.
  [[nodiscard]] Expected<Quotas> workspace() const;
  /// The same, and what clients may have open.
  [[nodiscard]] Expected<serving::RequestLimits> parse(serving::OpenLimits& open) const;
  /// @param loops  of the process
  /// @error as above
  [[nodiscard]] Expected<std::shared_ptr<serving::ProcessLimits>> make(std::size_t loops) const;
  /// The file as it is now, for what comes from now on (SE-089). Seats and quotas stay.
  /// @error as above; nothing has changed then
  [[nodiscard]] Expected<void> apply(serving::ProcessLimits& to) const;

 private:
  struct All {
    serving::RequestLimits requests;
    serving::PayerBounds payers;
    net::ConnectionLimits connections;
  };
  [[nodiscard]] Expected<All> all() const;
};

/// The group Limits. @param own  its first flags
[[nodiscard]] FlagGroup limit_flags(LimitOptions& options, std::vector<Flag> own);

}  // namespace kintsugi::cmd
