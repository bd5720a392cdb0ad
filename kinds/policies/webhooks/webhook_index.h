#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "kinds/policies/webhooks/internal/webhook.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// The webhooks of every logical cluster, of one kind of configuration, as they were last
/// committed: a change counts when its event has come to the loop. They are compiled when a request
/// first meets them, once per content of their configuration. Threads: one loop.
class WebhookIndex {
 public:
  explicit WebhookIndex(bool mutating) : mutating_(mutating) {}
  /// Reads what is there and follows changes. @param server outlives this.
  void start(apiserver::ApiServer& server);

  [[nodiscard]] bool empty() const noexcept { return clusters_.empty(); }
  /// Whether a cluster has any. Cost: one look-up.
  [[nodiscard]] bool has(std::string_view cluster) const { return clusters_.contains(cluster); }
  using Webhooks = std::vector<WebhookPtr>;
  /// Those, by name of their configuration, in its order; shared, as requests keep them while they
  /// wait.
  [[nodiscard]] std::shared_ptr<const Webhooks> webhooks(std::string_view cluster);

 private:
  struct Configuration {
    krm::Json list;  ///< `webhooks`
    Webhooks compiled;
  };
  struct Cluster {
    std::map<std::string, Configuration, std::less<>> configurations;
    std::shared_ptr<const Webhooks> all;  ///< null: to be made
  };
  void note(std::string_view cluster, std::string_view name, const krm::Json* object);

  bool mutating_;
  StringMap<Cluster> clusters_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::kinds
