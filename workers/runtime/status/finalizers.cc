#include "workers/runtime/status/finalizers.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kPath = "/metadata/finalizers";

Json operation(std::string_view op, std::string path, Json value) {
  return Json::object(
      {{"op", Json(op)}, {"path", Json(std::move(path))}, {"value", std::move(value)}});
}

const Json* list_of(const Json& object) noexcept {
  const Json* list = object.at({"metadata", "finalizers"});
  return list != nullptr && list->is_array() ? list : nullptr;
}

/// The tests that both patches begin with.
Json begin(const Json& object) {
  Json patch = Json::array();
  if (const std::string_view uid = object.text({"metadata", "uid"}); !uid.empty()) {
    patch.push_back(operation("test", "/metadata/uid", Json(uid)));
  }
  const Json* list = list_of(object);
  patch.push_back(operation("test", std::string(kPath), list == nullptr ? Json() : *list));
  return patch;
}

std::size_t index_of(const Json* list, std::string_view finalizer) noexcept {
  const auto& items = list->items();
  return static_cast<std::size_t>(
      std::find_if(items.begin(), items.end(),
                   [&](const Json& one) { return one.as_string() == finalizer; }) -
      items.begin());
}

}  // namespace

bool has_finalizer(const Json& object, std::string_view finalizer) noexcept {
  const Json* list = list_of(object);
  return list != nullptr && index_of(list, finalizer) < list->size();
}

std::optional<std::string> add_finalizer_patch(const Json& object, std::string_view finalizer) {
  if (has_finalizer(object, finalizer) || !object.text({"metadata", "deletionTimestamp"}).empty()) {
    return std::nullopt;
  }
  Json patch = begin(object);
  patch.push_back(list_of(object) == nullptr
                      ? operation("add", std::string(kPath), Json::array({Json(finalizer)}))
                      : operation("add", std::string(kPath) + "/-", Json(finalizer)));
  return patch.dump();
}

std::optional<std::string> remove_finalizer_patch(const Json& object, std::string_view finalizer) {
  if (!has_finalizer(object, finalizer)) {
    return std::nullopt;
  }
  Json patch = begin(object);
  const std::size_t index = index_of(list_of(object), finalizer);
  patch.push_back(Json::object(
      {{"op", Json("remove")}, {"path", Json(std::string(kPath) + "/" + std::to_string(index))}}));
  return patch.dump();
}

}  // namespace kintsugi::workers
