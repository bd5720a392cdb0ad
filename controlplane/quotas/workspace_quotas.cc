#include "controlplane/quotas/workspace_quotas.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/quantity.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Annotations that say otherwise.
struct Stated {
  Quota quota;
  std::string_view annotation;
};
constexpr Stated kStated[] = {
    {Quota::kBytes, krm::kMaxBytesAnnotation},
    {Quota::kObjects, krm::kMaxObjectsAnnotation},
    {Quota::kDefinitions, krm::kMaxDefinitionsAnnotation},
    {Quota::kExports, krm::kMaxExportsAnnotation},
    {Quota::kBindings, krm::kMaxBindingsAnnotation},
    {Quota::kNamespaces, krm::kMaxNamespacesAnnotation},
    {Quota::kServiceAccounts, krm::kMaxServiceAccountsAnnotation},
    {Quota::kChildren, krm::kMaxChildrenAnnotation},
};

constexpr std::uint32_t bit(Quota quota) noexcept { return 1U << column_of(quota); }
constexpr std::uint32_t kAllQuotas = (1U << kQuotas) - 1;

class QuotaStep final : public apiserver::AdmissionStep {
 public:
  QuotaStep(const store::Books& books, const ApiCatalog& catalog)
      : books_(books), catalog_(catalog) {}

  store::Keeps keeps(const apiserver::PendingWrite& write) const override {
    const Privileges user = privileges_of(write.user);
    if ((user & kSystem) != 0) {
      return {};
    }
    if (write.subresource == "status") {
      return {bit(Quota::kBytes), true};
    }
    return {(user & kAdmin) != 0 ? kAllQuotas & ~bit(Quota::kOwned) : kAllQuotas, false};
  }

  std::optional<Error> over(const apiserver::PendingWrite& write,
                            const store::Excess& excess) const override {
    const auto quota = static_cast<Quota>(excess.column);
    const std::string most = std::to_string(excess.most);
    std::string text;
    if (quota == Quota::kOwned) {
      text = "user \"" + write.user.name + "\" has reached the limit of " + most + " workspaces";
    } else if (quota == Quota::kObjects) {
      text = "logical cluster \"" + write.cluster +
             "\" has reached its total object count limit (" + std::to_string(excess.sum) + "/" +
             most + " objects); delete objects to free up capacity";
    } else {
      text = "logical cluster \"" + write.cluster + "\" has reached its limit of " + most + " ";
      text += quota_words(quota);
    }
    const apiserver::ResourceDef& def = *write.kind->def;
    return krm::forbidden(def.group, def.plural, write.name, text);
  }

  bool concerns(const apiserver::PendingWrite& write) const override {
    const apiserver::ResourceDef& def = *write.kind->def;
    return write.verb() == "create" && def.plural == kApiBindings && def.group == kApisGroup &&
           write.subresource.empty();
  }
  void review(const apiserver::PendingWritePtr& write, apiserver::Review review,
              std::function<void(Expected<void>)> done) override {
    constexpr std::size_t kColumn = column_of(Quota::kDefinitions);
    const Json* reference =
        review.object == nullptr ? nullptr : review.object->at({"spec", "reference", "export"});
    const bool is_bound = (keeps(*write).columns >> kColumn & 1U) != 0 && reference != nullptr;
    const std::int64_t now = books_.sums(write->cluster)[kColumn];
    const std::int64_t most = books_.limits(write->cluster)[kColumn];
    if (is_bound && now + offered(write->cluster, *reference) > most) {
      done(fail(*over(*write, {kColumn, now, most})));
    } else {
      done({});
    }
  }

 private:
  /// Resources of an export, if it is known.
  [[nodiscard]] std::int64_t offered(std::string_view cluster, const Json& reference) const {
    const auto found =
        catalog_.find_export(cluster, reference.text({"path"}), reference.text({"name"}));
    const auto object = found ? catalog_.get_export(*found) : std::nullopt;
    const Json* resources = object ? object->at({"spec", "resources"}) : nullptr;
    return resources == nullptr ? 0 : static_cast<std::int64_t>(resources->size());
  }

  const store::Books& books_;
  const ApiCatalog& catalog_;
};

}  // namespace

store::Sums default_quotas() noexcept {
  store::Sums out = store::no_limits();
  const auto set = [&out](Quota quota, std::int64_t most) { out[column_of(quota)] = most; };
  set(Quota::kBytes, 512 * kMiB);
  set(Quota::kObjects, 100'000);
  set(Quota::kDefinitions, 500);
  set(Quota::kExports, 200);
  set(Quota::kBindings, 500);
  set(Quota::kNamespaces, 5'000);
  set(Quota::kServiceAccounts, 5'000);
  set(Quota::kChildren, 1'000);
  set(Quota::kOwned, 100);
  return out;
}

bool set_quota(store::Sums& quotas, std::string_view key, std::string_view value) {
  const Expected<krm::Quantity> number = krm::Quantity::parse(value);
  if (!number || number->is_negative() || !number->is_whole()) {
    return false;
  }
  for (std::size_t i = 0; i < kQuotas; ++i) {
    if (quota_name(static_cast<Quota>(i)) == key) {
      quotas[i] = number->ceiling() == 0 ? store::kNoLimit : number->ceiling();
      return true;
    }
  }
  return false;
}

std::optional<store::Sums> quotas_of(std::string_view cluster, const Json& logical_cluster,
                                     const store::Sums& defaults) {
  const std::string_view phase = logical_cluster.text({"status", "phase"});
  if (phase.empty() || phase == "Scheduling" || phase == "Initializing") {
    return std::nullopt;
  }
  const bool is_own = cluster == kRootCluster || cluster.starts_with("system:");
  store::Sums out = is_own ? store::no_limits() : defaults;
  out[column_of(Quota::kOwned)] = store::kNoLimit;  // no cluster's
  for (const Stated& stated : kStated) {
    const Json* text = logical_cluster.at({"metadata", "annotations", stated.annotation});
    const Expected<krm::Quantity> number =
        krm::Quantity::parse(text == nullptr ? std::string_view() : text->as_string());
    if (text != nullptr && number) {
      const std::int64_t most = number->ceiling();
      out[column_of(stated.quota)] = most <= 0 ? store::kNoLimit : most;
    }
  }
  return out;
}

WorkspaceQuotas::~WorkspaceQuotas() { books_.set_initial(nullptr); }

void WorkspaceQuotas::start(apiserver::ApiServer& server) {
  books_.set_initial([owned = defaults_[column_of(Quota::kOwned)]](std::string_view account) {
    store::Sums most = store::no_limits();
    if (is_owner_account(account)) {
      most[column_of(Quota::kOwned)] = owned;
    }
    return most;
  });
  changes_ = server.on_change(kCoreGroup, kLogicalClusters,
                              [this](const apiserver::ApiServer::Change& change) {
                                put(change.cluster, change.object.get());
                              });
  server.reader().list("*", kCoreGroup, kLogicalClusters, "", [this](const Json& object) {
    put(cluster_of(object), &object);
    return true;
  });
}

void WorkspaceQuotas::put(std::string_view cluster, const Json* logical_cluster) {
  books_.limit(cluster, logical_cluster == nullptr
                            ? std::nullopt
                            : quotas_of(cluster, *logical_cluster, defaults_));
}

std::unique_ptr<apiserver::AdmissionStep> quota_step(const store::Books& books,
                                                     const ApiCatalog& catalog) {
  return std::make_unique<QuotaStep>(books, catalog);
}

}  // namespace kintsugi::controlplane
