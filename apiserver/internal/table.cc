#include "apiserver/internal/table.h"

#include <utility>

#include "base/time.h"
#include "krm/age.h"
#include "krm/annotations.h"
#include "krm/go_text.h"
#include "krm/status.h"
#include "krm/strict_time.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kNameDescription =
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

Column name_column() {
  Column column;
  column.name = "Name";
  column.format = "name";
  column.description = kNameDescription;
  column.json_path = ".metadata.name";
  return column;
}

Column age_column() {
  Column column;
  column.name = "Age";
  column.type = "date";
  column.description =
      "CreationTimestamp is a timestamp representing the server time when this object was created. "
      "It is not guaranteed to be set in happens-before order across separate operations. Clients "
      "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by "
      "the "
      "system. Read-only. Null for lists. More info: "
      "https://git.k8s.io/community/contributors/devel/sig-architecture/"
      "api-conventions.md#metadata";
  column.json_path = ".metadata.creationTimestamp";
  return column;
}

krm::Json definition(const Column& column) {
  return krm::Json::object({{"name", column.name},
                            {"type", column.type},
                            {"format", column.format},
                            {"description", column.description},
                            {"priority", column.priority}});
}

}  // namespace

Expected<IncludeObject> parse_include_object(std::optional<std::string_view> text) {
  if (!text || text->empty() || *text == "Metadata") {
    return IncludeObject::kMetadata;
  }
  if (*text == "Object") {
    return IncludeObject::kObject;
  }
  if (*text == "None") {
    return IncludeObject::kNone;
  }
  return fail(
      krm::bad_request("Unable to convert to Table as requested: includeObject: Invalid "
                       "value: " +
                       krm::go_quote(*text) + ": must be 'Metadata', 'Object', 'None', or empty"));
}

TableFormat::TableFormat(ServedKindPtr kind, const Form& form, IncludeObject include)
    : kind_(std::move(kind)), form_(form), include_(include) {
  if (!kind_->def->hooks.row) {
    columns_.push_back(name_column());
  }
  for (const Column& column : kind_->version->columns) {
    columns_.push_back(column);
  }
  if (kind_->version->columns.empty()) {
    columns_.push_back(age_column());
  }
  definitions_ = krm::Json::array();
  for (const Column& column : columns_) {
    definitions_.push_back(definition(column));
    std::optional<krm::JsonPath> path;
    if (column.cell == nullptr) {
      if (Expected<krm::JsonPath> compiled = krm::JsonPath::compile(column.json_path)) {
        path = std::move(*compiled);
      }
    }
    paths_.push_back(std::move(path));
  }
}

krm::Json TableFormat::cell(std::size_t index, const krm::Json& object) const {
  const Column& column = columns_[index];
  if (column.cell != nullptr) {
    return column.cell(object);
  }
  if (!paths_[index]) {
    return {};
  }
  krm::Json value = krm::column_cell(paths_[index]->first(object), column.type);
  if (value.is_null() && kind_->def->builtin) {
    return krm::Json("");  // a text of Go; those of a bookmark are all empty
  }
  if (column.type != "date" || kind_->def->builtin || !value.is_string()) {
    return value;
  }
  const auto time = krm::parse_rfc3339(value.as_string());
  if (!time) {
    const bool none = value.as_string().empty() || value.as_string() == "null";
    return krm::Json(none ? "<unknown>" : "<invalid>");
  }
  return krm::Json(krm::age_text(unix_seconds() - time->seconds));
}

krm::Json TableFormat::row(const krm::Json& object) const {
  krm::Json cells = krm::Json::array();
  if (kind_->def->hooks.row) {
    cells = kind_->def->hooks.row(object);
  } else {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      cells.push_back(cell(i, object));
    }
    if (cells.items().front().is_null()) {
      cells.edit_items().front() = "";  // a bookmark has no name
    }
  }
  krm::Json row = krm::Json::object({{"cells", std::move(cells)}});
  if (include_ == IncludeObject::kMetadata) {
    row["object"] = partial_object(form_, object);
  } else if (include_ == IncludeObject::kObject) {
    row["object"] = object;
  } else {
    // The end of the initial events is an annotation, so that bookmark has to have its metadata.
    const bool ends =
        !object.text({"metadata", "annotations", krm::kInitialEventsEndAnnotation}).empty();
    row["object"] = ends && object.text({"metadata", "name"}).empty()
                        ? partial_object(form_, object)
                        : krm::Json();
  }
  return row;
}

krm::Json partial_object(const Form& form, const krm::Json& object) {
  krm::Json partial = krm::Json::object(
      {{"apiVersion", form.meta_api_version()}, {"kind", "PartialObjectMetadata"}});
  const krm::Json* metadata = object.find("metadata");
  partial["metadata"] = metadata == nullptr ? krm::Json::object() : *metadata;
  return partial;
}

}  // namespace kintsugi::apiserver::internal
