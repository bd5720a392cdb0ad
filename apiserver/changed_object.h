#pragma once

#include <cstddef>
#include <memory>

#include "apiserver/resource.h"
#include "base/bytes.h"
#include "krm/json.h"
#include "store/store.h"

namespace kintsugi::apiserver {

/// An object before or after a change, read when somebody looks at it; as a pointer to it. Copies
/// share what was read. Threads: one loop.
class ChangedObject {
 public:
  ChangedObject() noexcept = default;
  ChangedObject(std::nullptr_t) noexcept {}                // NOLINT(google-explicit-constructor)
  ChangedObject(std::shared_ptr<const krm::Json> object);  // NOLINT(google-explicit-constructor)
  /// Null for bytes that are no stored value.
  /// @param def  gives apiVersion and kind; null: without them
  ChangedObject(ResourcePtr def, SharedBytes value, store::Revision revision);

  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] bool operator==(std::nullptr_t) const noexcept { return state_ == nullptr; }
  /// As stored, with apiVersion, kind and resourceVersion. Not of null. A value that cannot be read
  /// is an empty object.
  [[nodiscard]] const krm::Json& operator*() const { return *read(); }
  [[nodiscard]] const krm::Json* operator->() const { return read().get(); }
  [[nodiscard]] const krm::Json* get() const { return state_ == nullptr ? nullptr : read().get(); }
  operator std::shared_ptr<const krm::Json>() const;  // NOLINT(google-explicit-constructor)
  /// Its member "metadata" alone, without managedFields: a fraction of the cost. Not of null.
  [[nodiscard]] const krm::Json& meta() const;

 private:
  struct State;
  [[nodiscard]] const std::shared_ptr<const krm::Json>& read() const;

  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::apiserver
