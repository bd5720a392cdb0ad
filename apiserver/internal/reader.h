#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "apiserver/resource.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// ObjectReader over the store: newest committed state, storage version.
class StoreReader final : public ObjectReader {
 public:
  StoreReader(const store::Store& store, const Registry& registry)
      : store_(store), registry_(registry) {}
  [[nodiscard]] std::optional<krm::Json> get(std::string_view cluster, std::string_view group,
                                             std::string_view resource, std::string_view ns,
                                             std::string_view name) const override;
  /// As get(), the bytes as they are stored. @error kNotFound, kIo
  [[nodiscard]] Expected<store::Entry> find(std::string_view cluster, std::string_view group,
                                            std::string_view resource, std::string_view ns,
                                            std::string_view name) const;
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            std::string_view ns, const std::function<bool(const krm::Json&)>& visit) const override;

 private:
  const store::Store& store_;
  const Registry& registry_;
};

}  // namespace kintsugi::apiserver::internal
