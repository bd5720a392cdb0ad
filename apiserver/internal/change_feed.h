#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"

namespace kintsugi::apiserver::internal {

/// Listeners of ApiServer::on_change. Threads: one loop.
class ChangeFeed {
 public:
  explicit ChangeFeed(const Registry& registry) : registry_(registry) {}

  /// @param after changes up to this revision are not delivered.
  [[nodiscard]] std::shared_ptr<void> add(std::string_view group, std::string_view resource,
                                          store::Revision after,
                                          std::function<void(const ApiServer::Change&)> listener);
  void dispatch(const store::Event& event);

 private:
  struct Listener {
    std::string storage_name;  ///< "" = all
    store::Revision after = 0;
    std::function<void(const ApiServer::Change&)> call;
  };
  const Registry& registry_;
  std::vector<std::weak_ptr<Listener>> listeners_;
};

}  // namespace kintsugi::apiserver::internal
