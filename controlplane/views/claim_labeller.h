#pragma once

#include <string>

#include "apiserver/controllers/controller.h"
#include "controlplane/views/internal/binding_index.h"

namespace kintsugi::controlplane {

/// Brings the labels of claimed objects up to date when bindings change, and after writes that knew
/// an older state of them: it writes such objects again unchanged, and keep_claim_labels does the
/// rest. Cost: one pass over a resource of a cluster for each claim on it that changes; a look at
/// each change of an object in a cluster with claims. Source: AM-508.
class ClaimLabeller final : public apiserver::ControllerBase {
 public:
  ClaimLabeller(const apiserver::ControllerContext& context, BindingIndex& bindings,
                IdentityCheck in_root);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  void on_binding(const BindingInfo* now, const BindingInfo* before);
  void look_at(std::string_view cluster, std::string_view group, std::string_view resource);
  void queue_wrong(const apiserver::ObjectKey& collection);
  [[nodiscard]] bool is_right(const apiserver::ObjectKey& key, std::string_view identity,
                              const krm::Json& object) const;

  BindingIndex& bindings_;
  IdentityCheck in_root_;
};

}  // namespace kintsugi::controlplane
