#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "base/strings.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/strict.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

/// Members of core/v1 that events.k8s.io/v1 calls otherwise (AM-326).
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRenamed = {{
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"count", "deprecatedCount"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"reportingComponent", "reportingController"},
}};

void rename(Json& object, std::string_view from, std::string_view to) {
  if (Json* member = object.find(from)) {
    Json value = std::move(*member);
    object.erase(from);
    object[to] = std::move(value);
  }
}

void as_version(Json& object, std::string_view api_version) {
  object["apiVersion"] = Json(api_version);
  // Only fills and drops what the other form always or never writes: the types are known to fit.
  static_cast<void>(krm::decode_typed(*krm::builtin_schema(api_version, "Event"), object));
}

void from_core(Json& object) {
  for (const auto& [core, events] : kRenamed) {
    rename(object, core, events);
  }
  as_version(object, "events.k8s.io/v1");
}

void to_core(Json& object) {
  for (const auto& [core, events] : kRenamed) {
    rename(object, events, core);
  }
  as_version(object, "v1");
}

void check_modern(const Json& object, std::string_view controller_field,
                  std::vector<Cause>& causes) {
  const std::string_view controller = object.text({"reportingComponent"});
  if (controller.empty()) {
    causes.push_back(krm::field_required(std::string(controller_field)));
  }
  for (const std::string& fault : krm::check_qualified_name(controller)) {
    causes.push_back(krm::field_invalid(std::string(controller_field), Json(controller), fault));
  }
  struct Text {
    std::string_view field;
    std::size_t limit;
    bool required;
  };
  constexpr Text kTexts[] = {{"reportingInstance", 128, true},
                             {"action", 128, true},
                             {"reason", 128, true},
                             {"message", 1'024, false}};
  for (const Text& each : kTexts) {
    const std::string_view value = object.text({each.field});
    if (value.empty() && each.required) {
      causes.push_back(krm::field_required(std::string(each.field)));
    } else if (value.size() > each.limit) {
      causes.push_back(
          krm::field_invalid(std::string(each.field), Json(""),
                             "can have at most " + std::to_string(each.limit) + " characters"));
    }
  }
}

void check_namespace(const Json& object, bool modern, std::vector<Cause>& causes) {
  const std::string_view ns = object.text({"metadata", "namespace"});
  const std::string_view involved = object.text({"involvedObject", "namespace"});
  const bool general = ns == "default" || (modern ? ns == "kube-system" : ns.empty());
  const bool fits = involved.empty() ? general : modern || ns == involved;
  if (!fits) {
    causes.push_back(krm::field_invalid("involvedObject.namespace", Json(involved),
                                        "does not match event.namespace"));
  }
}

void check_any(const Json& object, std::string_view controller_field, std::vector<Cause>& causes) {
  const bool modern = is_set(object, "eventTime");
  check_namespace(object, modern, causes);
  if (modern) {
    check_modern(object, controller_field, causes);
  }
}

/// The metadata of a new core event is looked at when nothing else is wrong.
void validate_core(const apiserver::WriteContext&, const Json& object, const Json* old,
                   std::vector<Cause>& causes) {
  std::vector<Cause> found;
  check_any(object, "reportingComponent", found);
  if (old == nullptr && !found.empty()) {
    causes.clear();
  }
  std::move(found.begin(), found.end(), std::back_inserter(causes));
}

void check_series(const Json& object, std::vector<Cause>& causes) {
  const Json* series = object.find("series");
  if (series == nullptr || !series->is_object()) {
    return;
  }
  const Json* count = series->find("count");
  if (count == nullptr || count->as_integer() < 2) {
    causes.push_back(krm::field_invalid("series.count", Json(""), "should be at least 2"));
  }
  if (!is_set(*series, "lastObservedTime")) {
    causes.push_back(krm::field_required("series.lastObservedTime"));
  }
}

void check_new(const Json& object, std::vector<Cause>& causes) {
  check_series(object, causes);
  if (!is_set(object, "eventTime")) {
    causes.push_back(krm::field_required("eventTime"));
  }
  const std::string_view type = object.text({"type"});
  if (type != "Normal" && type != "Warning") {
    causes.push_back(
        krm::field_invalid("type", Json(""), "has invalid value: " + std::string(type)));
  }
  const auto forbid = [&](std::string_view field, bool present) {
    if (present) {
      causes.push_back(krm::field_invalid(std::string(field), Json(""), "needs to be unset"));
    }
  };
  forbid("firstTimestamp", is_set(object, "firstTimestamp"));
  forbid("lastTimestamp", is_set(object, "lastTimestamp"));
  forbid("count", is_set(object, "count"));
  forbid("source",
         !object.text({"source", "component"}).empty() || !object.text({"source", "host"}).empty());
}

constexpr GoField kReference[] = {{"Kind", "kind"},
                                  {"Namespace", "namespace"},
                                  {"Name", "name"},
                                  {"UID", "uid"},
                                  {"APIVersion", "apiVersion"},
                                  {"ResourceVersion", "resourceVersion"},
                                  {"FieldPath", "fieldPath"}};
constexpr GoField kSource[] = {{"Component", "component"}, {"Host", "host"}};

/// Nothing of an event may change but its series, which is looked at only then.
void check_unchanged(const Json& object, const Json& old, std::vector<Cause>& causes) {
  if (!same_member(object, old, "series")) {
    check_series(object, causes);
  }
  struct Field {
    std::string_view name, shown;
    std::span<const GoField> parts;
    Json unset;  ///< how its zero value is shown
  };
  static const std::vector<Field>& fields =
      *new std::vector<Field>{{"involvedObject", "involvedObject", kReference, {}},
                              {"reason", "reason", {}, ""},
                              {"message", "message", {}, ""},
                              {"source", "source", kSource, {}},
                              {"firstTimestamp", "firstTimestamp", {}, {}},
                              {"lastTimestamp", "lastTimestamp", {}, {}},
                              {"count", "count", {}, 0},
                              {"type", "type", {}, ""},
                              {"eventTime", "eventTime", {}, {}},
                              {"action", "action", {}, ""},
                              {"related", "related", kReference, {}},
                              {"reportingComponent", "reportingController", {}, ""},
                              {"reportingInstance", "reportingInstance", {}, ""}};
  constexpr std::string_view kDetail = "field is immutable";
  for (const Field& field : fields) {
    const auto value_of = [&field](const Json& event) {
      return is_set(event, field.name) ? *event.find(field.name) : field.unset;
    };
    const Json value = value_of(object);
    if (field.parts.empty()) {
      if (!(value == value_of(old))) {
        causes.push_back(krm::field_invalid(std::string(field.shown), value, kDetail));
      }
      continue;
    }
    const bool optional = field.name == "related";
    const auto text_of = [&](const Json& reference) {
      return optional && reference.is_null() ? "null" : go_struct_text(reference, field.parts);
    };
    if (std::string text = text_of(value); text != text_of(value_of(old))) {
      causes.push_back({"FieldValueInvalid",
                        "Invalid value: " + std::move(text) + ": " + std::string(kDetail),
                        std::string(field.shown)});
    }
  }
}

void validate_events(const apiserver::WriteContext&, const Json& object, const Json* old,
                     std::vector<Cause>& causes) {
  const std::vector<Cause> of_metadata =
      old == nullptr ? std::exchange(causes, {}) : std::vector<Cause>();
  check_any(object, "reportingController", causes);
  if (old == nullptr) {
    causes.insert(causes.end(), of_metadata.begin(), of_metadata.end());
    check_new(object, causes);
  } else {
    check_unchanged(object, *old, causes);
  }
}

std::string source_text(const Json& event) {
  std::string component(event.text({"source", "component"}));
  std::string host(event.text({"source", "host"}));
  if (component.empty()) {
    component = event.text({"reportingComponent"});
    host = event.text({"reportingInstance"});
  }
  return host.empty() ? component : component + ", " + host;
}

std::string_view trim_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Json row(const Json& object) {
  Json event = object;
  if (event.find("regarding") != nullptr || event.find("deprecatedSource") != nullptr) {
    to_core(event);
  }
  const std::string_view first_seen = event.text({"firstTimestamp"}).empty()
                                          ? event.text({"eventTime"})
                                          : event.text({"firstTimestamp"});
  std::string_view last_seen = event.text({"lastTimestamp"});
  if (last_seen.empty()) {
    last_seen = first_seen;
  }
  const Json* count = event.find("count");
  std::int64_t times = count == nullptr ? 0 : count->as_integer();
  if (const Json* series = event.find("series"); series != nullptr && series->is_object()) {
    last_seen = series->text({"lastObservedTime"});
    times = series->find("count") == nullptr ? 0 : series->find("count")->as_integer();
  } else if (times == 0) {
    times = 1;
  }
  std::string target = to_lower(event.text({"involvedObject", "kind"}));
  if (const std::string_view name = event.text({"involvedObject", "name"}); !name.empty()) {
    target += '/';
    target += name;
  }
  return Json::array({Json(age_text(last_seen)), Json(event.text({"type"})),
                      Json(event.text({"reason"})), Json(target),
                      Json(event.text({"involvedObject", "fieldPath"})), Json(source_text(event)),
                      Json(trim_space(event.text({"message"}))), Json(age_text(first_seen)),
                      Json(times), Json(event.text({"metadata", "name"}))});
}

std::vector<apiserver::Column> columns() {
  struct Text {
    std::string_view name, type, format, description;
    int priority;
  };
  constexpr Text kTexts[] = {
      {"Last Seen", "string", "",
       "The time at which the most recent occurrence of this event was recorded.", 0},
      {"Type", "string", "",
       "Type of this event (Normal, Warning), new types could be added in "
       "the future",
       0},
      {"Reason", "string", "",
       "This should be a short, machine understandable string that gives "
       "the reason for the transition into the object's current status.",
       0},
      {"Object", "string", "", "The object that this event is about.", 0},
      {"Subobject", "string", "",
       "If referring to a piece of an object instead of an entire object, this string should "
       "contain a valid JSON/Go field access statement, such as "
       "desiredState.manifest.containers[2]. For example, if the object reference is to a "
       "container "
       "within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" "
       "refers to the name of the container that triggered the event) or if no container name is "
       "specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is "
       "chosen "
       "only to have some well-defined way of referencing a part of an object.",
       1},
      {"Source", "string", "",
       "The component reporting this event. Should be a short machine "
       "understandable string.",
       1},
      {"Message", "string", "", "A human-readable description of the status of this operation.", 0},
      {"First Seen", "string", "",
       "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
       1},
      {"Count", "string", "", "The number of times this event has occurred.", 1},
      {"Name", "string", "name",
       "Name must be unique within a namespace. Is required when creating resources, although some "
       "resources may allow a client to request the generation of an appropriate name "
       "automatically. Name is primarily intended for creation idempotence and configuration "
       "definition. Cannot be updated. More info: "
       "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
       1},
  };
  std::vector<apiserver::Column> out;
  for (const Text& text : kTexts) {
    apiserver::Column column;
    column.name = text.name;
    column.type = text.type;
    column.format = text.format;
    column.description = text.description;
    column.priority = text.priority;
    out.push_back(std::move(column));
  }
  return out;
}

apiserver::ResourceDef event_kind(std::string_view group) {
  apiserver::ResourceDef def = make_kind(group, "v1", "Event", "events");
  def.short_names = {"ev"};
  def.create_on_update = true;
  def.versions[0].columns = columns();
  def.hooks.row = row;
  return def;
}

std::vector<apiserver::ResourceDef::FieldLabel> field_labels(std::string_view object_label,
                                                             std::string_view controller_label) {
  std::vector<apiserver::ResourceDef::FieldLabel> out;
  for (std::string_view part :
       {"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"}) {
    std::string label(object_label);
    label += '.';
    label += part;
    out.push_back({label, "." + label});
  }
  out.push_back({"reason", ".reason"});
  out.push_back({std::string(controller_label), "." + std::string(controller_label)});
  out.push_back({"type", ".type"});
  return out;
}

}  // namespace

apiserver::ResourcePtr core_event_kind() {
  apiserver::ResourceDef def = event_kind("");
  def.field_labels = field_labels("involvedObject", "reportingComponent");
  def.field_labels.push_back({"source", ".source.component"});
  def.hooks.validate = validate_core;
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

std::vector<apiserver::ResourcePtr> events_kinds() {
  apiserver::ResourceDef def = event_kind("events.k8s.io");
  def.stored_under_group = "";
  def.versions[0].from_storage = from_core;
  def.versions[0].to_storage = to_core;
  def.field_labels = field_labels("regarding", "reportingController");
  def.hooks.validate = validate_events;
  return {std::make_shared<const apiserver::ResourceDef>(std::move(def))};
}

}  // namespace kintsugi::kinds
