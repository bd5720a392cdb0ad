#pragma once

#include <optional>
#include <string>
#include <utility>

#include "apiserver/server.h"
#include "base/alive.h"
#include "store/store.h"
#include "topology/objects.h"

namespace kintsugi::server {

/// topology::Objects over an API server: what joins the controllers to the store of the proxy.
class ApiObjects final : public topology::Objects {
 public:
  /// @param server must outlive it; writes carry the field manager `kintsugi`. What they answer is
  /// told while this lives.
  /// @param fence  of the duty that is written in
  explicit ApiObjects(apiserver::ApiServer& server, std::optional<store::Fence> fence = {})
      : server_(server), fence_(std::move(fence)) {}
  [[nodiscard]] std::optional<krm::Json> get(std::string_view cluster, std::string_view group,
                                             std::string_view resource,
                                             std::string_view name) const override;
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            const std::function<bool(const krm::Json&)>& visit) const override;
  void create(std::string_view cluster, std::string_view group, std::string_view resource,
              krm::Json object, Done done) override;
  void adopt(std::string_view cluster, std::string_view group, std::string_view resource,
             krm::Json object, Done done) override;
  void update(std::string_view cluster, std::string_view group, std::string_view resource,
              std::string_view subresource, krm::Json object, Done done) override;
  void remove(std::string_view cluster, std::string_view group, std::string_view resource,
              std::string_view name, std::string_view uid, Done done) override;
  [[nodiscard]] std::shared_ptr<void> on_change(
      std::string_view group, std::string_view resource,
      std::function<void(const Change&)> listener) override;

 private:
  [[nodiscard]] apiserver::ApiServer::WriteRequest request(std::string_view cluster,
                                                           std::string_view group,
                                                           std::string_view resource) const;
  void write(apiserver::ApiServer::WriteRequest request, Done done);

  apiserver::ApiServer& server_;
  const std::optional<store::Fence> fence_;
  Alive alive_;
};

}  // namespace kintsugi::server
