#include "apiserver/internal/apply_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apiserver/internal/decode.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_request.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/apply.h"
#include "krm/go_value.h"
#include "krm/status.h"
#include "krm/strict.h"
#include "krm/structural.h"
#include "krm/yaml.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // as YAML

/// What a client applies, and what strict validation says about its text ("" is nothing).
struct Applied {
  krm::Json config;
  std::string fault;
};

Error undecodable(std::string_view why) {
  return krm::bad_request("error decoding YAML: " + std::string(why));
}

/// JSON or YAML (AM-234).
Expected<Applied> parse_applied(std::string_view body) {
  Applied out;
  if (body.starts_with('{')) {
    krm::Json::ParseOptions options;
    options.max_depth = kMaxDepth;
    options.collect_duplicates = true;
    krm::Json::ParseReport report;
    Expected<krm::Json> json = krm::Json::parse(body, options, &report);
    if (json && report.duplicate_fields.empty()) {
      out.config = std::move(*json);
      return out;
    }
  }
  krm::YamlReport report;
  Expected<krm::Json> yaml = krm::parse_yaml(body, &report);
  if (!yaml) {
    return fail(undecodable(yaml.error().message()));
  }
  if (!yaml->is_object() && !yaml->is_null()) {
    return fail(undecodable(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal " +
        std::string(krm::go_json_type(*yaml)) + " into Go value of type map[string]interface {}"));
  }
  out.config = yaml->is_null() ? krm::Json::object() : std::move(*yaml);
  if (!report.duplicate_keys.empty()) {
    out.fault = "error converting YAML to JSON: yaml: unmarshal errors:";
    for (const std::string& key : report.duplicate_keys) {
      out.fault += "\n  " + key;
    }
  }
  return out;
}

/// What is there before the first apply of an absent object.
krm::Json empty_object(const ServedKind& kind) {
  krm::Json object =
      krm::Json::object({{"apiVersion", kind.api_version}, {"kind", kind.def->kind}});
  if (kind.def->builtin && kind.version->schema != nullptr) {
    krm::Json typed = object;
    if (krm::decode_typed(*kind.version->schema, typed)) {
      return typed;
    }
  }
  return object;
}

/// Null in maps and lists of typed kinds is the zero value (AM-249).
void fill_nulls(const krm::Schema& schema, krm::Json& value) {
  const auto fill = [](const krm::Schema& inner, krm::Json& item) {
    if (item.is_null() && inner.type == krm::SchemaType::kString) {
      item = inner.form == krm::ScalarForm::kQuantity ? "0" : "";
    }
    fill_nulls(inner, item);
  };
  if (value.is_array() && schema.items != nullptr) {
    for (krm::Json& item : value.edit_items()) {
      fill(*schema.items, item);
    }
  } else if (value.is_object()) {
    for (krm::JsonMember& member : value.edit_members()) {
      if (const krm::SchemaProperty* property = schema.property(member.key)) {
        fill_nulls(*property->schema, member.value);
      } else if (schema.additional != nullptr) {
        fill(*schema.additional, member.value);
      }
    }
  }
}

/// Makes of the merged object what the kind can store. Unlike other writes, null in custom objects
/// stays where there is no default (AM-249).
Expected<void> shape_applied(const ServedKind& kind, krm::Json& object) {
  const krm::Schema* schema = kind.version->schema.get();
  if (schema == nullptr) {
    return {};
  }
  if (kind.def->builtin) {
    fill_nulls(*schema, object);
    std::vector<std::string> unknown;
    return shape_object(kind, object, unknown);
  }
  if (Expected<void> done = krm::coerce_metadata(*schema, object); !done) {
    return done;
  }
  (void)krm::prune(*schema, object);
  krm::fill_defaults(*schema, object);
  fill_kind_defaults(kind, object);
  return {};
}

Expected<void> check_kind(const std::string& expected, const krm::Json& config) {
  const std::string given = krm::kind_text(config);
  if (given != expected) {
    return fail(krm::bad_request("invalid object type: " + given));
  }
  return {};
}

/// Strict and Warn are about the text alone; the schema refuses unknown fields anyway.
Expected<void> report_fault(WriteOp& op, const std::string& fault) {
  op.warnings.clear();  // of an attempt before
  if (fault.empty() || op.options.validation == FieldValidation::kIgnore) {
    return {};
  }
  if (op.options.validation == FieldValidation::kStrict) {
    return fail(krm::bad_request("error strict decoding YAML: " + fault));
  }
  const std::size_t first = fault.find("line ");
  for (const std::string_view text :
       split(std::string_view(fault).substr(first == std::string::npos ? 0 : first), '\n')) {
    op.warnings.emplace_back(text.substr(std::min(text.find_first_not_of(" "), text.size())));
  }
  return {};
}

Expected<krm::Json> apply_scale_config(WriteOp& op, const Applied& applied,
                                       const krm::Json& current) {
  if (Expected<void> same = check_kind(std::string(kScaleVersion) + ", Kind=Scale", applied.config);
      !same) {
    return fail(std::move(same.error()));
  }
  Expected<krm::Json> object = apply_scale(op, current, applied.config);
  if (object) {
    if (Expected<void> fine = report_fault(op, applied.fault); !fine) {
      return fail(std::move(fine.error()));
    }
  }
  return object;
}

/// @param current null: there is no object yet.
Expected<krm::Json> apply_object(WriteOp& op, const Applied& applied, const krm::Json& current) {
  const ServedKind& kind = *op.kind;
  const krm::Json nothing = current.is_null() ? empty_object(kind) : krm::Json();
  const krm::Json& live = current.is_null() ? nothing : current;
  if (Expected<void> same = check_kind(
          krm::kind_text(
              krm::Json::object({{"apiVersion", kind.api_version}, {"kind", kind.def->kind}})),
          applied.config);
      !same) {
    return fail(std::move(same.error()));
  }
  const std::string now = rfc3339(unix_seconds());
  Expected<krm::Json> object =
      krm::apply_configuration(ownership_context(op, now), op.options.force, live, applied.config);
  if (!object) {
    return object;
  }
  if (Expected<void> fine = report_fault(op, applied.fault); !fine) {
    return fail(std::move(fine.error()));
  }
  if (!kind.def->builtin) {
    krm::keep_emptied(kind.version->schema.get(), live, applied.config, *object);
  }
  if (Expected<void> shaped = shape_applied(kind, *object); !shaped) {
    const std::string type = krm::kind_text(applied.config);
    const std::string why(shaped.error().message());
    const bool bytes = kind.def->builtin && why.starts_with("illegal base64");
    return fail(
        krm::unclassified("failed to convert new object (" +
                          std::string(applied.config.text({"metadata", "namespace"})) + "/" +
                          std::string(applied.config.text({"metadata", "name"})) + "; " + type +
                          ") to proper version" +
                          (kind.def->builtin ? ": unable to convert unstructured object to " + type
                                             : " (" + kind.api_version + ")") +
                          ": " + (bytes ? "error decoding from json: " : "") + why));
  }
  if (current.is_null()) {
    if (const std::string_view uid = object->text({"metadata", "uid"}); !uid.empty()) {
      return fail(krm::conflict(kind.def->group, kind.def->plural, op.name,
                                "uid mismatch: the provided object specified uid " +
                                    std::string(uid) + ", and no existing object was found"));
    }
    (*object)["metadata"].erase("resourceVersion");
  }
  return object;
}

}  // namespace

void handle_apply(const RequestPtr& request, const Target& target) {
  Expected<WriteOptions> options = parse_write_options(request->info.query, "PatchOptions", true);
  if (!options) {
    send_error(*request, options.error());
    return;
  }
  const WriteOpPtr op = make_write_op(request, target, Apply{{}, ask_create(request)});
  op->manager = options->field_manager;
  op->options = std::move(*options);
  with_body(request, [request, op] {
    Expected<Applied> parsed = parse_applied(request->body);
    request->body = std::string();
    if (!parsed) {
      op->refuse(std::move(parsed.error()));
      return;
    }
    std::get<Apply>(op->write).change =
        [raw = op.get(),
         applied = std::make_shared<const Applied>(std::move(*parsed))](const krm::Json& current) {
          return raw->subresource == "scale" ? apply_scale_config(*raw, *applied, current)
                                             : apply_object(*raw, *applied, current);
        };
    run_write(op);
  });
}

}  // namespace kintsugi::apiserver::internal
