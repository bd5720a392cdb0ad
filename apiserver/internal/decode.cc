#include "apiserver/internal/decode.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/go_value.h"
#include "krm/protobuf.h"
#include "krm/status.h"
#include "krm/strict.h"
#include "krm/strict_order.h"
#include "krm/structural.h"
#include "krm/types/builtin_types.h"
#include "krm/yaml.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kSummaryBytes = 30;

/// What Kubernetes shows of a body that it does not understand.
std::string summary(std::string_view body) {
  if (body.empty()) {
    return "<empty>";
  }
  if (body.front() == '{') {
    return body.size() > kSummaryBytes ? std::string(body.substr(0, kSummaryBytes)) + " ..."
                                       : std::string(body);
  }
  return body.size() > kSummaryBytes ? hex_encode(body.substr(0, kSummaryBytes)) + " ..."
                                     : hex_encode(body);
}

Error unrecognized(const ServedKind& kind, std::string_view why, std::string_view body) {
  return krm::bad_request("the object provided is unrecognized (must be of type " + kind.def->kind +
                          "): " + std::string(why) + " (" + summary(body) + ")");
}

Error cannot_handle(std::string_view kind, std::string_view version, const ServedKind& expected,
                    std::string_view why) {
  return krm::bad_request(std::string(kind) + " in version " + krm::go_quote(version) +
                          " cannot be handled as a " + expected.def->kind + ": " +
                          std::string(why));
}

std::string_view version_part(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
}

std::string_view group_part(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

Error wrong_version(std::string_view given, const ServedKind& kind) {
  return krm::bad_request("the API version in the data (" + std::string(given) +
                          ") does not match the expected API version (" + kind.api_version + ")");
}

/// AM-137, AM-138: absent means that of the path.
Expected<void> check_builtin_kind(const ServedKind& kind, krm::Json& object) {
  const std::string given_version(object.text({"apiVersion"}));
  const std::string given_kind(object.text({"kind"}));
  const std::string api_version = given_version.empty() ? kind.api_version : given_version;
  const std::string name = given_kind.empty() ? kind.def->kind : given_kind;
  if (api_version == kind.api_version && name == kind.def->kind) {
    object["apiVersion"] = kind.api_version;
    object["kind"] = kind.def->kind;
    return {};
  }
  const std::string_view version = version_part(api_version);
  if (name == kind.def->kind && group_part(api_version) == kind.def->group &&
      kind.def->version(version) != nullptr) {
    return fail(wrong_version(api_version, kind));
  }
  if (krm::builtin_schema(api_version, name) != nullptr) {
    const std::string group =
        kind.def->group.empty() ? "core" : kind.def->group.substr(0, kind.def->group.find('.'));
    return fail(cannot_handle(name, version, kind,
                              "converting (" + std::string(version) + "." + name + ") to (" +
                                  group + "." + kind.def->kind + "): unknown conversion"));
  }
  return fail(cannot_handle(name, version, kind, krm::not_registered(api_version, name)));
}

/// AM-139, AM-140.
Expected<void> check_custom_kind(const ServedKind& kind, const krm::Json& object,
                                 std::string_view body) {
  const std::string_view name = object.text({"kind"});
  const std::string_view api_version = object.text({"apiVersion"});
  if (name.empty()) {
    return fail(
        unrecognized(kind, "Object 'Kind' is missing in '" + std::string(body) + "'", body));
  }
  if (api_version != kind.api_version) {
    return fail(wrong_version(api_version, kind));
  }
  if (name != kind.def->kind) {
    return fail(
        krm::invalid(kind.def->group, name, object.text({"metadata", "name"}),
                     {krm::field_invalid("kind", krm::Json(name), "must be " + kind.def->kind)}));
  }
  return {};
}

Expected<krm::Json> parse_yaml(std::string_view body, std::vector<std::string>& faults) {
  krm::YamlReport report;
  Expected<krm::Json> json = krm::parse_yaml(body, &report);
  for (const std::string& fault : report.duplicate_keys) {
    faults.push_back(fault);
  }
  return json;
}

Error invalid_patch(const krm::Json& patched, std::string_view shown, std::string_view why) {
  const krm::Json value = shown.empty() ? krm::Json(patched.dump()) : krm::Json(shown);
  return krm::invalid("", "", "", {krm::field_invalid("patch", value, why)});
}

/// A patch may not make another kind of a custom object.
Expected<void> check_patched_custom(const ServedKind& kind, const krm::Json& patched,
                                    std::string_view shown) {
  const std::string_view name = patched.text({"kind"});
  const std::string_view api_version = patched.text({"apiVersion"});
  if (name.empty()) {
    return fail(
        invalid_patch(patched, shown, "Object 'Kind' is missing in '" + patched.dump() + "'"));
  }
  std::vector<Cause> causes;
  if (name != kind.def->kind) {
    causes.push_back(krm::field_invalid("kind", krm::Json(name), "must be " + kind.def->kind));
  }
  if (!api_version.empty() && api_version != kind.api_version) {
    causes.push_back(krm::field_invalid("apiVersion", krm::Json(api_version),
                                        "must be " + std::string(kind.api_version)));
  }
  if (causes.empty()) {
    return {};
  }
  return fail(
      krm::invalid(kind.def->group, name, patched.text({"metadata", "name"}), std::move(causes)));
}

/// Kubernetes reads integers beyond 64 bits as floating point numbers.
void round_big_numbers(krm::Json& value) {
  if (value.type() == krm::Json::Type::kBigNumber) {
    value = krm::Json(value.as_double());
  } else if (value.is_object()) {
    for (krm::JsonMember& member : value.edit_members()) {
      round_big_numbers(member.value);
    }
  } else if (value.is_array()) {
    for (krm::Json& item : value.edit_items()) {
      round_big_numbers(item);
    }
  }
}

/// Removes repeated owners, with a warning in Kubernetes' words.
/// @param when  nothing, or when it was done.
void drop_repeated_owners(krm::Json& object, std::string_view when,
                          std::vector<std::string>& warnings) {
  krm::Json* owners = object.at({"metadata", "ownerReferences"});
  if (owners == nullptr || owners->items().size() < 2) {
    return;
  }
  std::unordered_set<std::string> seen;
  std::vector<std::string> repeated;
  krm::Json::Array kept;
  for (krm::Json& owner : owners->edit_items()) {
    if (seen.insert(owner.dump()).second) {
      kept.push_back(std::move(owner));
    } else {
      repeated.emplace_back(owner.text({"uid"}));
    }
  }
  *owners = krm::Json(std::move(kept));
  if (!repeated.empty()) {
    warnings.push_back(
        ".metadata.ownerReferences contains duplicate entries" + std::string(when) +
        "; API server dedups owner references in 1.20+, and may reject such requests as early as "
        "1.24; please fix your requests; duplicate UID(s) observed: " +
        join(repeated, ", "));
  }
}

void append(std::vector<std::string>& to, std::vector<std::string> from) {
  for (std::string& text : from) {
    to.push_back(std::move(text));
  }
}

/// A value of the wrong type in the words of the converter that makes objects of strategic merge
/// patches: "json: cannot unmarshal string into Go struct field X.y of type bool".
std::string restored(std::string_view why) {
  constexpr std::string_view kLead = "json: cannot unmarshal ";
  constexpr std::string_view kInto = " into Go ";
  constexpr std::string_view kOf = " of type ";
  const std::size_t into = why.find(kInto);
  const std::size_t of = why.rfind(kOf);
  if (why.starts_with("illegal base64")) {
    return "error decoding from json: " + std::string(why);
  }
  if (!why.starts_with(kLead) || into == why.npos || of == why.npos || of < into) {
    return std::string(why);
  }
  const std::string_view given = why.substr(kLead.size(), into - kLead.size());
  const std::string_view wanted = why.substr(of + kOf.size());
  const std::string kind = given == "array"    ? "slice"
                           : given == "object" ? "map"
                           : given == "number" ? "int64"
                                               : std::string(given);
  if (wanted.starts_with("[]")) {
    return "cannot restore slice from " + kind;
  }
  if (wanted.starts_with("map[")) {
    return "cannot restore map from " + kind;
  }
  if (wanted.find('.') != wanted.npos) {
    return "cannot restore struct from: " + kind;
  }
  return kind == "int64" && wanted == "string" ? "cannot convert int64 to string"
                                               : "unrecognized type: " + std::string(wanted);
}

}  // namespace

Expected<void> check_type_meta(const krm::Json& body) {
  constexpr std::string_view kLead =
      "couldn't get version/kind; json parse error: json: cannot unmarshal ";
  if (!body.is_object()) {
    return fail(krm::bad_request(std::string(kLead) + std::string(krm::go_json_type(body)) +
                                 " into Go value of type struct { APIVersion string "
                                 "\"json:\\\"apiVersion,omitempty\\\"\"; Kind string "
                                 "\"json:\\\"kind,omitempty\\\"\" }"));
  }
  for (const std::string_view member : {"apiVersion", "kind"}) {
    const krm::Json* text = body.find(member);
    if (text != nullptr && !text->is_string() && !text->is_null()) {
      return fail(krm::bad_request(std::string(kLead) + std::string(krm::go_json_type(*text)) +
                                   " into Go struct field ." + std::string(member) +
                                   " of type string"));
    }
  }
  const std::string_view version = body.text({"apiVersion"});
  if (std::count(version.begin(), version.end(), '/') > 1) {
    return fail(krm::bad_request("unexpected GroupVersion string: " + std::string(version)));
  }
  return {};
}

Error unsupported_body(const ServedKind& kind) {
  std::string types = "application/json, application/yaml";
  if (kind.def->builtin) {
    types += ", application/vnd.kubernetes.protobuf";
  }
  return Error(
      Errc::kUnsupportedMediaType,
      "the body of the request was in an unknown format - accepted media types include: " + types);
}

Expected<ParsedBody> parse_body(const ServedKind& kind, BodyType type, std::string_view body) {
  ParsedBody parsed;
  Expected<krm::Json> json = fail(Errc::kUnsupportedMediaType);
  switch (type) {
    case BodyType::kJson: {
      krm::Json::ParseOptions options;
      options.collect_duplicates = true;
      krm::Json::ParseReport report;
      json = krm::Json::parse(body, options, &report);
      parsed.faults = krm::strict_warnings(report.duplicate_fields, {});
      break;
    }
    case BodyType::kYaml:
      json = parse_yaml(body, parsed.faults);
      break;
    case BodyType::kProtobuf:
      if (!kind.def->builtin) {
        return fail(unsupported_body(kind));
      }
      json = krm::decode_protobuf(body, kind.api_version, kind.def->kind);
      if (!json) {
        return fail(unrecognized(kind, json.error().message(), body));
      }
      break;
    default:
      return fail(unsupported_body(kind));
  }
  if (!json) {
    const std::string_view why = json.error().message();
    constexpr std::string_view kConverting = "error converting YAML to JSON: ";
    return fail(
        unrecognized(kind,
                     why.starts_with(kConverting)
                         ? std::string(why.substr(kConverting.size()))
                         : "couldn't get version/kind; json parse error: " + std::string(why),
                     body));
  }
  if (json->is_null()) {  // nothing to decode into the object
    if (!kind.def->builtin) {
      return fail(
          unrecognized(kind, "Object 'Kind' is missing in '" + std::string(body) + "'", body));
    }
    *json = krm::Json::object();
  }
  if (Expected<void> meta = check_type_meta(*json); !meta) {
    return fail(unrecognized(kind, meta.error().message(), body));
  }
  parsed.json = std::move(*json);
  return parsed;
}

void fill_kind_defaults(const ServedKind& kind, krm::Json& object) {
  if (kind.def->hooks.defaults) {
    kind.to_storage(object);
    kind.def->hooks.defaults(object);
    kind.from_storage(object);
  }
}

Expected<void> shape_object(const ServedKind& kind, krm::Json& object,
                            std::vector<std::string>& unknown) {
  const krm::Schema* schema = kind.version->schema.get();
  if (schema == nullptr) {
    return {};
  }
  if (kind.def->builtin) {
    if (Expected<void> done = krm::decode_typed(*schema, object, &unknown); !done) {
      return done;
    }
  } else {
    round_big_numbers(object);
    std::vector<std::string> of_metadata;  // that of the object, then that of embedded ones
    if (Expected<void> done = krm::coerce_metadata(*schema, object, &of_metadata); !done) {
      return done;
    }
    const auto embedded = std::stable_partition(
        of_metadata.begin(), of_metadata.end(),
        [](const std::string& path) { return path.starts_with("metadata."); });
    append(unknown, std::vector<std::string>(of_metadata.begin(), embedded));
    append(unknown, krm::prune(*schema, object));
    append(unknown, std::vector<std::string>(embedded, of_metadata.end()));
    krm::apply_defaults(*schema, object);
  }
  fill_kind_defaults(kind, object);
  return {};
}

Expected<krm::Json> decode_object(const ServedKind& kind, BodyType type, std::string_view body,
                                  FieldValidation validation, std::vector<std::string>& warnings) {
  Expected<ParsedBody> parsed = parse_body(kind, type, body);
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  krm::Json object = std::move(parsed->json);
  const Expected<void> checked =
      kind.def->builtin ? check_builtin_kind(kind, object) : check_custom_kind(kind, object, body);
  if (!checked) {
    return fail(checked.error().clone());
  }
  std::vector<std::string> unknown;
  if (Expected<void> shaped = shape_object(kind, object, unknown); !shaped) {
    return fail(cannot_handle(kind.def->kind, kind.version->name, kind, shaped.error().message()));
  }
  std::vector<std::string> texts = std::move(parsed->faults);
  if (kind.def->builtin && type == BodyType::kJson && (!texts.empty() || !unknown.empty())) {
    texts = krm::strict_findings(body, unknown);
  } else {
    append(texts, krm::strict_warnings({}, unknown));
  }
  if (validation == FieldValidation::kStrict && !texts.empty()) {
    const bool yaml = type == BodyType::kYaml && texts.front().starts_with("line ");
    return fail(cannot_handle(kind.def->kind, kind.version->name, kind,
                              std::string("strict decoding error: ") +
                                  (yaml ? "yaml: unmarshal errors:\n  " : "") + join(texts, ", ")));
  }
  if (validation == FieldValidation::kWarn) {
    append(warnings, std::move(texts));
  }
  drop_repeated_owners(object, {}, warnings);
  return object;
}

Expected<krm::Json> decode_patched(const ServedKind& kind, krm::Json patched,
                                   const std::vector<std::string>& faults,
                                   FieldValidation validation, std::vector<std::string>& warnings,
                                   std::string_view shown,
                                   const std::function<Expected<krm::Json>()>& again) {
  const std::string_view name = patched.text({"kind"});
  const std::string_view api_version = patched.text({"apiVersion"});
  if (!patched.is_object()) {
    return fail(invalid_patch(patched, shown, "the result is no object"));
  }
  if (!kind.def->builtin) {
    if (Expected<void> same = check_patched_custom(kind, patched, shown); !same) {
      return fail(std::move(same.error()));
    }
  }
  if (!name.empty() && name != kind.def->kind) {
    return fail(invalid_patch(patched, shown, krm::not_registered(api_version, name)));
  }
  if (!api_version.empty() && api_version != kind.api_version) {
    return fail(invalid_patch(patched, shown, krm::not_registered(api_version, kind.def->kind)));
  }
  const auto name_it = [&kind](krm::Json& object) {
    object["apiVersion"] = kind.api_version;
    object["kind"] = kind.def->kind;
  };
  name_it(patched);
  const auto refused = [&](std::string_view why) -> tl::unexpected<Error> {
    Expected<krm::Json> unshaped = again();
    if (unshaped) {
      name_it(*unshaped);
    }
    return fail(invalid_patch(unshaped ? *unshaped : krm::Json(), shown, why));
  };
  std::vector<std::string> unknown;
  if (Expected<void> shaped = shape_object(kind, patched, unknown); !shaped) {
    const std::string_view why = shaped.error().message();
    return refused(shown.empty() ? std::string(why) : restored(why));
  }
  std::vector<std::string> texts = faults;
  append(texts, krm::strict_warnings({}, unknown));
  if (validation == FieldValidation::kStrict && !texts.empty()) {
    return refused("strict decoding error: " + join(texts, ", "));
  }
  if (validation == FieldValidation::kWarn) {
    append(warnings, std::move(texts));
  }
  drop_repeated_owners(patched, " after mutating admission happens", warnings);
  return patched;
}

}  // namespace kintsugi::apiserver::internal
