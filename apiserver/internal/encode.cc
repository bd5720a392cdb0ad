#include "apiserver/internal/encode.h"

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "krm/annotations.h"

namespace kintsugi::apiserver::internal {
namespace {

std::string partial_prefix(const Form& form) {
  return kind_prefix(form.meta_api_version(), "PartialObjectMetadata");
}

/// Which version an object has elsewhere, where objects of several definitions are shown together.
void append_with_version(std::string& out, const ServedKind& kind, std::string_view version,
                         std::string_view metadata) {
  constexpr std::string_view kAnnotations = "{\"annotations\":{";
  const std::string annotation =
      '"' + std::string(krm::kOriginalApiVersionAnnotation) + "\":" +
      krm::Json(kind.def->api_version(version.empty() ? kind.def->storage_version().name : version))
          .dump();
  out += kAnnotations;
  out += annotation;
  if (!metadata.starts_with(kAnnotations)) {
    out += "},";
    metadata.remove_prefix(1);
  } else {
    metadata.remove_prefix(kAnnotations.size());
    out += metadata.starts_with('}') ? "" : ",";
  }
  out += metadata;
}

}  // namespace

ObjectEncoder::ObjectEncoder(ServedKindPtr kind, const Form& form, IncludeObject include)
    : kind_(std::move(kind)), form_(form) {
  if (form.shape == Shape::kTable) {
    table_ = std::make_shared<const TableFormat>(kind_, form, include);
  }
}

Expected<void> ObjectEncoder::append_partial(std::string& out, std::string_view value,
                                             store::Revision revision) const {
  const Expected<StoredView> stored = StoredView::parse(value);
  if (!stored) {
    return fail(stored.error().clone());
  }
  const MetadataView metadata = metadata_of(*stored);
  out += '{';
  out += partial_prefix(form_);
  out += "\"metadata\":";
  if (kind_->def->identity == kAnyIdentity || kind_->def->of_any_definition) {
    append_with_version(out, *kind_, stored->stamp.version, metadata.before);
  } else {
    out += metadata.before;
  }
  out += std::to_string(revision);
  out += metadata.after;
  out += '}';
  return {};
}

void ObjectEncoder::append_table(std::string& out, const krm::Json& object,
                                 std::string_view revision, bool with_columns) const {
  out += "{\"kind\":\"Table\",\"apiVersion\":\"";
  out += form_.meta_api_version();
  out += "\",\"metadata\":{";
  if (!revision.empty()) {
    out += "\"resourceVersion\":\"";
    out += revision;
    out += '"';
  }
  out += "},\"columnDefinitions\":";
  if (with_columns) {
    table_->column_definitions().dump_to(out);
  } else {
    out += "null";
  }
  out += ",\"rows\":[";
  table_->row(object).dump_to(out);
  out += "]}";
}

Expected<void> ObjectEncoder::append_event_object(std::string& out, std::string_view value,
                                                  store::Revision revision,
                                                  bool with_columns) const {
  if (form_.shape == Shape::kPartial || form_.shape == Shape::kPartialList) {
    return append_partial(out, value, revision);
  }
  if (form_.shape == Shape::kObject) {
    const Expected<StoredView> stored = StoredView::parse(value);
    if (!stored) {
      return fail(stored.error().clone());
    }
    if (kind_->is_stored_form(*stored)) {
      apiserver::append_object(out, *stored, kind_->prefix, revision);
      return {};
    }
  }
  Expected<krm::Json> object = kind_->decode(value, revision);
  if (!object) {
    return fail(std::move(object.error()));
  }
  if (form_.shape == Shape::kTable) {
    append_table(out, *object, object->text({"metadata", "resourceVersion"}), with_columns);
  } else {
    object->dump_to(out);
  }
  return {};
}

Expected<void> ObjectEncoder::append_object(std::string& out, std::string_view value,
                                            store::Revision revision) const {
  return append_event_object(out, value, revision, true);
}

std::string ObjectEncoder::event_object_text(const krm::Json& object, bool with_columns) const {
  std::string out;
  switch (form_.shape) {
    case Shape::kTable:
      append_table(out, object, object.text({"metadata", "resourceVersion"}), with_columns);
      break;
    case Shape::kPartial:
    case Shape::kPartialList:
      partial_object(form_, object).dump_to(out);
      break;
    case Shape::kObject:
      object.dump_to(out);
      break;
  }
  return out;
}

Expected<void> ObjectEncoder::append_item(std::string& out, std::string_view value,
                                          store::Revision revision) const {
  if (form_.shape == Shape::kPartialList) {
    return append_partial(out, value, revision);
  }
  if (form_.shape == Shape::kObject) {
    const Expected<StoredView> stored = StoredView::parse(value);
    if (!stored) {
      return fail(stored.error().clone());
    }
    if (kind_->is_stored_form(*stored)) {
      const bool bare = kind_->def->builtin;
      apiserver::append_object(out, *stored, bare ? std::string_view() : kind_->prefix, revision);
      return {};
    }
  }
  Expected<krm::Json> object = kind_->decode(value, revision);
  if (!object) {
    return fail(std::move(object.error()));
  }
  append_item_object(out, std::move(*object));
  return {};
}

void ObjectEncoder::append_item_object(std::string& out, krm::Json object) const {
  if (form_.shape == Shape::kTable) {
    table_->row(object).dump_to(out);
    return;
  }
  if (form_.shape != Shape::kObject) {
    partial_object(form_, object).dump_to(out);
    return;
  }
  if (kind_->def->builtin) {
    object.erase("apiVersion");
    object.erase("kind");
  }
  object.dump_to(out);
}

std::string ObjectEncoder::list_head(store::Revision revision, std::string_view continue_token,
                                     std::int64_t remaining) const {
  std::string out = "{\"kind\":";
  const bool plain = form_.shape == Shape::kObject;
  switch (form_.shape) {
    case Shape::kTable:
      out += "\"Table\"";
      break;
    case Shape::kPartial:
    case Shape::kPartialList:
      out += "\"PartialObjectMetadataList\"";
      break;
    case Shape::kObject: {
      const std::string& list_kind = kind_->def->list_kind;
      krm::append_json_string(out, list_kind.empty() ? kind_->def->kind + "List" : list_kind);
      break;
    }
  }
  out += ",\"apiVersion\":";
  krm::append_json_string(out,
                          plain ? std::string_view(kind_->api_version) : form_.meta_api_version());
  out += ",\"metadata\":{";
  if (!continue_token.empty() || (plain && !kind_->def->builtin)) {
    out += "\"continue\":";
    krm::append_json_string(out, continue_token);
    out += ',';
  }
  if (remaining >= 0) {
    out += "\"remainingItemCount\":" + std::to_string(remaining) + ",";
  }
  out += "\"resourceVersion\":\"" + std::to_string(revision) + "\"}";
  if (form_.shape == Shape::kTable) {
    out += ",\"columnDefinitions\":";
    table_->column_definitions().dump_to(out);
    out += ",\"rows\":";
  } else {
    out += ",\"items\":";
  }
  return out;
}

std::string_view ObjectEncoder::list_tail(bool empty) const noexcept {
  if (!empty) {
    return "]}";
  }
  return form_.shape == Shape::kPartialList ||
                 (form_.shape == Shape::kTable && kind_->def->null_empty_table)
             ? "null}"
             : "[]}";
}

std::string ObjectEncoder::bookmark_object(store::Revision revision, bool initial_end,
                                           bool with_columns) const {
  krm::Json object =
      krm::Json::object({{"apiVersion", kind_->api_version}, {"kind", kind_->def->kind}});
  krm::Json& metadata = object["metadata"];
  metadata["resourceVersion"] = std::to_string(revision);
  if (initial_end) {
    metadata["annotations"] = krm::Json::object({{krm::kInitialEventsEndAnnotation, "true"}});
  }
  if (form_.shape == Shape::kTable) {
    std::string out;
    append_table(out, object, std::to_string(revision), with_columns);
    return out;
  }
  return object_text(object);
}

}  // namespace kintsugi::apiserver::internal
