#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"

namespace kintsugi::kinds {

/// Keeps status.hard and status.used of ResourceQuotas: first computation, deleted objects, changed
/// limits, and a count from scratch every five minutes. Creates charge quotas themselves
/// (quota/quota_admission.h); as every create in a namespace with quotas changes them, an update
/// that expects the quota last seen cannot lose one.
/// Cost: a count of the objects when a quota begins to limit a resource, then one look-up per
/// change. Memory: the quotas, and a number per limited resource.
class QuotaUsage final : public apiserver::ControllerBase {
 public:
  explicit QuotaUsage(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;
  /// Counts everything again.
  void recheck();
  /// Namespaces with quotas.
  [[nodiscard]] std::size_t tracked() const noexcept { return spaces_.size(); }

 private:
  struct Quota {
    std::shared_ptr<const krm::Json> object;
    store::Revision revision = 0;
  };
  struct Counter {
    std::int64_t objects = 0;
    store::Revision revision = 0;  ///< changes up to it are in `objects`
  };
  /// A namespace with quotas.
  struct Space {
    std::map<std::string, Quota, std::less<>> quotas;
    StringMap<Counter> counters;  ///< by resource as in store keys
  };
  void on_change(const apiserver::ApiServer::Change& change);
  void note(const std::string& space, const std::string& name, Quota quota);
  [[nodiscard]] Expected<std::int64_t> counted(const std::string& key, Space& space,
                                               std::string_view resource);
  void process(const std::string& key, Finished finished) override;
  [[nodiscard]] bool counts_others() const noexcept override { return true; }
  void arm();

  StringMap<Space> spaces_;  ///< by "<cluster>/<namespace>"
  net::Timer timer_;
  bool armed_ = false;
};

}  // namespace kintsugi::kinds
