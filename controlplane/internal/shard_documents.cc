#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/request_bounds.h"
#include "controlplane/internal/shard_loop.h"
#include "controlplane/quotas/cluster_loads.h"
#include "controlplane/shard_metrics.h"
#include "krm/path_prefixes.h"

/// The documents that a shard has at paths of their own.
namespace kintsugi::controlplane {

std::optional<krm::Json> ShardLoop::document(std::string_view api_root,
                                             std::string_view path) const {
  const bool metrics = path == "/metrics";
  if (api_root == krm::kEverywhere && path == "/debug/fairness") {
    return apiserver::fairness_report(*server_);  // of this loop
  }
  if (api_root == krm::kEverywhere && path == "/debug/logical_clusters") {
    return cluster_loads(index_, store_.books(), *params_.watches);
  }
  const bool of_shard = api_root == krm::kEverywhere || (metrics && api_root.empty());
  if (!of_shard || (!metrics && path != "/debug/replication")) {
    return key_document(api_root, path);
  }
  krm::Json report = replication_->get();
  const ApiCatalog::Counts counts = catalog_.counts();
  const auto number = [](std::size_t value) { return krm::Json(static_cast<std::int64_t>(value)); };
  put_abuse();
  report["catalog"] = krm::Json::object({{"exports", number(counts.exports)},
                                         {"replicatedExports", number(counts.replicated_exports)},
                                         {"types", number(counts.types)},
                                         {"replicatedTypes", number(counts.replicated_types)}});
  if (!metrics) {
    return report;
  }
  return krm::Json(shard_metrics(
      report,
      params_.certificates != nullptr ? params_.certificates->get() : std::vector<CertificateEnd>(),
      {params_.limits.get(), store_.books(), params_.abuse.get(), params_.memory.get(),
       params_.pressure.get()}));
}

std::optional<krm::Json> ShardLoop::key_document(std::string_view api_root,
                                                 std::string_view path) const {
  constexpr std::string_view kKeys = "/openid/v1/jwks";
  if (path == kKeys) {
    return tokens_->jwks();
  }
  if (path != "/.well-known/openid-configuration") {
    return std::nullopt;
  }
  const std::string base = params_.external_url.empty()
                               ? "https://" + params_.address + ":" + std::to_string(port())
                               : params_.external_url;
  return tokens_->openid_configuration(base + std::string(api_root) + std::string(kKeys));
}

}  // namespace kintsugi::controlplane
