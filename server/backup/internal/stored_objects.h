#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "krm/json.h"
#include "server/layout.h"
#include "store/encryption/value_codec.h"
#include "store/store.h"

namespace kintsugi::server {

/// Objects of rows as they lie in stores and backups, also encrypted ones (SE-149). Threads: any.
class StoredObjects {
 public:
  explicit StoredObjects(std::shared_ptr<const store::ValueCodec> codec) noexcept
      : codec_(std::move(codec)) {}
  /// With the keys of the installation (`pki/encryption.yaml`), where it has some. Blocks.
  /// @error kConfig the file does not hold
  [[nodiscard]] static Expected<StoredObjects> of(const Layout& layout);

  /// @error kCorrupt it is no object; kInternal no key opens it
  [[nodiscard]] Expected<krm::Json> read(const store::EntryView& row) const;
  /// What is stored in the place of the row when its object becomes what `change` makes of it.
  /// @error as read()
  [[nodiscard]] Expected<std::string> changed(
      const store::EntryView& row, const std::function<void(krm::Json& object)>& change) const;

 private:
  [[nodiscard]] Expected<std::string> open(const store::EntryView& row) const;

  std::shared_ptr<const store::ValueCodec> codec_;
};

}  // namespace kintsugi::server
