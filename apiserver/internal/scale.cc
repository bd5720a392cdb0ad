#include "apiserver/internal/scale.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "krm/go_value.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

/// Stands for replicas that an object does not have while its scale is patched.
constexpr std::int64_t kNoReplicas = std::numeric_limits<std::int32_t>::min();

/// Steps of ".spec.replicas"; CRD validation lets only plain members through.
std::vector<std::string_view> steps(std::string_view path) {
  if (!path.empty() && path.front() == '.') {
    path.remove_prefix(1);
  }
  return split(path, '.');
}

const krm::Json* find(const krm::Json& object, std::string_view path) {
  const krm::Json* value = &object;
  for (const std::string_view step : steps(path)) {
    value = value == nullptr ? nullptr : value->find(step);
  }
  return value;
}

/// Go's words for a value that is on the way to a field, or is the field, and has the wrong type.
std::string accessor_error(std::string_view path, const krm::Json& value,
                           std::string_view expected) {
  return std::string(path) + " accessor error: " + krm::go_value_text(value) + " is of the type " +
         std::string(krm::go_type_text(value)) + ", expected " + std::string(expected);
}

void check_value(const std::string& path, const krm::Json& object, bool is_count,
                 std::vector<Cause>& causes) {
  const krm::Json shown = is_count ? krm::Json(0) : krm::Json("");
  const krm::Json* value = &object;
  std::string here;
  for (const std::string_view step : steps(path)) {
    if (!value->is_object()) {
      causes.push_back(krm::field_invalid(
          path, shown,
          accessor_error(here + "." + std::string(step), *value, "map[string]interface{}")));
      return;
    }
    here.append(".").append(step);
    value = value->find(step);
    if (value == nullptr) {
      return;
    }
  }
  if (is_count ? !value->is_integer() : !value->is_string()) {
    causes.push_back(krm::field_invalid(
        path, shown, accessor_error(path, *value, is_count ? "int64" : "string")));
  } else if (is_count && value->as_integer() < 0) {
    causes.push_back(krm::field_invalid(path, *value, "should be a non-negative integer"));
  } else if (is_count && value->as_integer() > std::numeric_limits<std::int32_t>::max()) {
    causes.push_back(
        krm::field_invalid(path, *value, "should be less than or equal to 2147483647"));
  }
}

}  // namespace

void check_scale_values(const ScalePaths& paths, const krm::Json& object,
                        std::vector<Cause>& causes) {
  if (paths.spec_replicas.empty()) {
    return;
  }
  check_value(paths.spec_replicas, object, true, causes);
  check_value(paths.status_replicas, object, true, causes);
  if (!paths.label_selector.empty()) {
    check_value(paths.label_selector, object, false, causes);
  }
}

Expected<krm::Json> scale_of(const ServedKind& kind, const krm::Json& object) {
  const ScalePaths& paths = kind.version->scale;
  const krm::Json* replicas = find(object, paths.spec_replicas);
  if (replicas == nullptr || !replicas->is_integer()) {
    return fail(
        krm::internal("the spec replicas field \"" + paths.spec_replicas + "\" does not exist"));
  }
  krm::Json scale = krm::Json::object({{"apiVersion", kScaleVersion}, {"kind", "Scale"}});
  krm::Json& metadata = scale["metadata"];
  for (const char* member : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (const krm::Json* value = object.at({"metadata", member}); value != nullptr) {
      metadata[member] = *value;
    }
  }
  scale["spec"] = krm::Json::object();
  if (replicas->as_integer() != 0) {
    scale["spec"]["replicas"] = *replicas;
  }
  const krm::Json* current = find(object, paths.status_replicas);
  scale["status"] = krm::Json::object({{"replicas", current == nullptr ? krm::Json(0) : *current}});
  if (!paths.label_selector.empty()) {
    const krm::Json* selector = find(object, paths.label_selector);
    if (selector != nullptr && selector->is_string() && !selector->as_string().empty()) {
      scale["status"]["selector"] = *selector;
    }
  }
  return scale;
}

krm::Json scale_to_change(const ServedKind& kind, const krm::Json& object) {
  if (Expected<krm::Json> scale = scale_of(kind, object)) {
    return std::move(*scale);
  }
  krm::Json filled = object;
  krm::Json* value = &filled;
  for (const std::string_view step : steps(kind.version->scale.spec_replicas)) {
    value = &(*value)[step];
  }
  *value = krm::Json(kNoReplicas);
  return scale_of(kind, filled).value_or(krm::Json::object());
}

Expected<void> check_scale_types(const krm::Json& scale) {
  const krm::Json* replicas = scale.at({"spec", "replicas"});
  if (replicas == nullptr || replicas->is_integer() || replicas->is_null()) {
    return {};
  }
  return fail(Errc::kBadRequest, "json: cannot unmarshal " + std::string(replicas->type_name()) +
                                     " into Go struct field ScaleSpec.spec.replicas of type int32");
}

Expected<krm::Json> with_scale(const ServedKind& kind, krm::Json object, const krm::Json& scale) {
  const std::string_view scale_kind = scale.text({"kind"});
  if (!scale_kind.empty() && scale_kind != "Scale") {
    return fail(
        krm::bad_request("wrong object passed to Scale update: " + std::string(scale_kind)));
  }
  if (Expected<void> fine = check_scale_types(scale); !fine) {
    return fail(krm::bad_request("Scale in version \"v1\" cannot be handled as a Scale: " +
                                 std::string(fine.error().message())));
  }
  const krm::Json* replicas = scale.at({"spec", "replicas"});
  const std::int64_t wanted = replicas == nullptr ? 0 : replicas->as_integer();
  const ScalePaths& paths = kind.version->scale;
  if (wanted == kNoReplicas) {
    return fail(krm::bad_request("the spec replicas field \"" + paths.spec_replicas +
                                 "\" cannot be empty"));
  }
  // The name is checked with that of the object (update.cc).
  object["metadata"]["name"] = scale.text({"metadata", "name"});
  if (const std::string_view uid = scale.text({"metadata", "uid"}); !uid.empty()) {
    object["metadata"]["uid"] = uid;
  }
  krm::Json* value = &object;
  for (const std::string_view step : steps(paths.spec_replicas)) {
    value = &(*value)[step];
  }
  *value = krm::Json(wanted);
  const std::string_view version = scale.text({"metadata", "resourceVersion"});
  if (!version.empty()) {
    object["metadata"]["resourceVersion"] = version;
  }
  return object;
}

}  // namespace kintsugi::apiserver::internal
