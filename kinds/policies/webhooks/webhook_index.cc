#include "kinds/policies/webhooks/webhook_index.h"

#include <utility>

#include "kinds/policies/internal/admission_scope.h"
#include "kinds/policies/policy_names.h"

namespace kintsugi::kinds {

using krm::Json;

void WebhookIndex::start(apiserver::ApiServer& server) {
  subscriptions_ = follow_rules(server, mutating_ ? kMutatingWebhooks : kValidatingWebhooks,
                                [this](std::string_view cluster, std::string_view name,
                                       const Json* object) { note(cluster, name, object); });
}

void WebhookIndex::note(std::string_view cluster, std::string_view name, const Json* object) {
  const Json* list = object == nullptr ? nullptr : object->find("webhooks");
  const auto known = clusters_.find(cluster);
  if (list == nullptr || list->size() == 0) {
    if (known == clusters_.end()) {
      return;
    }
    auto& configurations = known->second.configurations;
    if (const auto found = configurations.find(name); found != configurations.end()) {
      configurations.erase(found);
    }
    known->second.all.reset();
    if (configurations.empty()) {
      clusters_.erase(known);
    }
    return;
  }
  Cluster& entry = known == clusters_.end() ? clusters_[std::string(cluster)] : known->second;
  Configuration& configuration = entry.configurations[std::string(name)];
  if (!(configuration.list == *list)) {
    configuration = {*list, {}};
    entry.all.reset();
  }
}

std::shared_ptr<const WebhookIndex::Webhooks> WebhookIndex::webhooks(std::string_view cluster) {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return std::make_shared<const Webhooks>();
  }
  Cluster& entry = found->second;
  if (entry.all == nullptr) {
    auto all = std::make_shared<Webhooks>();
    for (auto& [name, configuration] : entry.configurations) {
      for (std::size_t i = configuration.compiled.size(); i < configuration.list.size(); ++i) {
        configuration.compiled.push_back(
            std::make_shared<const Webhook>(name, mutating_, configuration.list.items()[i]));
      }
      all->insert(all->end(), configuration.compiled.begin(), configuration.compiled.end());
    }
    entry.all = std::move(all);
  }
  return entry.all;
}

}  // namespace kintsugi::kinds
