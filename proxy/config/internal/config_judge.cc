#include "proxy/config/internal/config_judge.h"

#include <vector>

#include "krm/request_info.h"
#include "net/upstream.h"

namespace kintsugi::proxy {
namespace {

std::string must_be(std::string_view what) { return "must be " + std::string(what); }

}  // namespace

std::optional<ShardFault> judge(const ProxyConfig& config, std::size_t index) {
  const std::vector<StaticShard>& all = config.topology.shards;
  const StaticShard& shard = all[index];
  if (!krm::is_cluster_name(shard.name)) {
    return ShardFault{"name", must_be("a name of lower-case letters, digits and '-'")};
  }
  for (std::size_t i = 0; i < index; ++i) {
    if (all[i].name == shard.name) {
      return ShardFault{"name", "another shard has this name"};
    }
    if (all[i].uid == shard.uid) {
      return ShardFault{"uid", "another shard has this uid"};
    }
  }
  if (shard.url.empty() ? shard.kubeconfig.empty() : !net::Url::parse(shard.url)) {
    return ShardFault{"url", must_be("an http or https URL")};
  }
  if (shard.cert_file.empty() != shard.key_file.empty()) {
    return ShardFault{shard.cert_file.empty() ? "cert_file" : "key_file", "is required"};
  }
  if (shard.url.starts_with("http://") || !shard.kubeconfig.empty()) {
    return std::nullopt;
  }
  if (shard.ca_file.empty() && config.backend.ca_file.empty()) {
    return ShardFault{"ca_file", "is required without backend.ca_file"};
  }
  const bool asserts = shard.identity == CallerIdentity::kRequestHeader;
  const bool has_own = !shard.cert_file.empty() || (!asserts && !shard.token_file.empty());
  if (!has_own && (!asserts || config.backend.cert_file.empty())) {
    return ShardFault{"cert_file", asserts ? "is required without backend.cert_file"
                                           : "or token_file or kubeconfig is required"};
  }
  return std::nullopt;
}

}  // namespace kintsugi::proxy
