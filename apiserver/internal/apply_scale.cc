#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/internal/apply_request.h"
#include "apiserver/internal/scale.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/apply.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::ManagedFields;
using krm::ManagedFieldsEntry;
using Path = std::vector<std::string>;

/// Where a version keeps its replicas, as a path of field sets; empty without scale.
Path replicas_path(const ResourceDef& def, std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  const ResourceVersion* version =
      def.version(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
  Path path;
  if (version != nullptr && !version->scale.spec_replicas.empty()) {
    for (const std::string_view step : split(version->scale.spec_replicas, '.')) {
      if (!step.empty()) {
        path.push_back("f:" + std::string(step));
      }
    }
  }
  return path;
}

const Path& scale_path() {
  static const Path& path = *new Path{"f:spec", "f:replicas"};
  return path;
}

krm::FieldSet set_of(const Path& path) {
  krm::FieldSet set;
  set.insert(path);
  return set;
}

ManagedFields entries_of(const krm::Json& object) {
  const krm::Json* list = object.at({"metadata", "managedFields"});
  Expected<ManagedFields> entries =
      list == nullptr ? ManagedFields() : krm::parse_managed_fields(*list);
  return entries ? std::move(*entries) : ManagedFields();
}

/// Entries that own the replicas, as entries of the Scale.
ManagedFields to_scale(const ResourceDef& def, const ManagedFields& entries) {
  ManagedFields out;
  for (const ManagedFieldsEntry& entry : entries) {
    const Path path = replicas_path(def, entry.api_version);
    if (!path.empty() && entry.fields.has(path)) {
      out.push_back(entry);
      out.back().fields = set_of(scale_path());
    }
  }
  for (ManagedFieldsEntry& entry : out) {
    entry.api_version = kScaleVersion;
  }
  return out;
}

bool same_manager(const ManagedFieldsEntry& a, const ManagedFieldsEntry& b) {
  return a.manager == b.manager && a.operation == b.operation && a.subresource == b.subresource;
}

/// Entries of the object after those of the Scale have changed.
ManagedFields to_object(const ServedKind& kind, const ManagedFields& entries, ManagedFields scale) {
  ManagedFields out;
  for (ManagedFieldsEntry entry : entries) {
    const Path path = replicas_path(*kind.def, entry.api_version);
    if (!path.empty() && entry.fields.has(path)) {
      const auto kept = std::find_if(scale.begin(), scale.end(),
                                     [&](const auto& each) { return same_manager(each, entry); });
      if (kept == scale.end()) {
        entry.fields = entry.fields.difference(set_of(path));
      } else {
        scale.erase(kept);
      }
    }
    out.push_back(std::move(entry));
  }
  for (ManagedFieldsEntry& entry : scale) {
    if (entry.fields.has(scale_path())) {
      entry.api_version = kind.api_version;
      entry.fields = set_of(replicas_path(*kind.def, kind.api_version));
      out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace

Expected<krm::Json> apply_scale(const WriteOp& op, const krm::Json& current,
                                const krm::Json& config) {
  const ServedKind& kind = *op.kind;
  Expected<krm::Json> scale = scale_of(kind, current);
  if (!scale) {
    return scale;
  }
  const ManagedFields entries = entries_of(current);
  krm::Json renamed = krm::managed_fields_json(to_scale(*kind.def, entries));
  if (!renamed.is_null()) {
    (*scale)["metadata"]["managedFields"] = std::move(renamed);
  }
  static const krm::SchemaPtr& schema =
      *new krm::SchemaPtr(krm::builtin_schema(kScaleVersion, "Scale"));
  const std::string now = rfc3339(unix_seconds());
  krm::OwnershipContext context;
  context.schema = schema.get();
  context.manager = op.manager;
  context.api_version = kScaleVersion;
  context.subresource = "scale";
  context.now = now;
  return krm::apply_configuration(context, op.options.force, *scale, config)
      .and_then([&](krm::Json applied) {
        const ManagedFields after = entries_of(applied);
        return with_scale(kind, current, applied).map([&](krm::Json object) {
          krm::Json list = krm::managed_fields_json(to_object(kind, entries, after));
          if (list.is_null()) {
            object["metadata"].erase("managedFields");
          } else {
            object["metadata"]["managedFields"] = std::move(list);
          }
          return object;
        });
      });
}

}  // namespace kintsugi::apiserver::internal
