#include "apiserver/internal/openapi_paths.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/internal/openapi_names.h"
#include "apiserver/internal/scale.h"
#include "base/strings.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

/// Content types of patches that handle_patch() takes; the last one of builtin kinds only.
constexpr std::string_view kStrategicPatch = "application/strategic-merge-patch+json";
constexpr std::string_view kPatchTypes[] = {"application/apply-patch+yaml",
                                            "application/json-patch+json",
                                            "application/merge-patch+json", kStrategicPatch};

struct QueryParameter {
  std::string_view name, type, description;
};
constexpr QueryParameter kQueryParameters[] = {
    {"allowWatchBookmarks", "boolean", "Ask for watch events of type BOOKMARK."},
    {"continue", "string", "The continue token of the previous part of a list."},
    {"dryRun", "string",
     "When present, indicates that modifications should not be persisted. Valid values are: All."},
    {"fieldManager", "string",
     "The name of the actor that makes these changes, at most 128 printable characters."},
    {"fieldSelector", "string", "Restricts the list by the fields of its objects."},
    {"fieldValidation", "string",
     "What the server does with unknown or duplicate fields: Ignore, Warn or Strict."},
    {"force", "boolean", "Take fields over that other managers own; for apply patches only."},
    {"gracePeriodSeconds", "integer", "The duration in seconds before the object is deleted."},
    {"labelSelector", "string", "Restricts the list by the labels of its objects."},
    {"limit", "integer", "The maximum number of objects in an answer."},
    {"orphanDependents", "boolean", "Deprecated: use propagationPolicy."},
    {"propagationPolicy", "string", "Orphan, Background or Foreground."},
    {"resourceVersion", "string", "The resource version that the answer must at least have."},
    {"resourceVersionMatch", "string", "How resourceVersion is applied to lists."},
    {"sendInitialEvents", "boolean", "Begin a watch with the objects that there are."},
    {"timeoutSeconds", "integer", "Timeout of lists and watches."},
    {"watch", "boolean", "Watch for changes and return them as a stream of events."},
};

Json parameter(const QueryParameter& known) {
  return Json::object({{"name", known.name},
                       {"in", "query"},
                       {"description", known.description},
                       {"schema", Json::object({{"type", known.type}, {"uniqueItems", true}})}});
}

void add_parameters(Json& operation, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const QueryParameter& known : kQueryParameters) {
      if (known.name == name) {
        operation["parameters"].push_back(parameter(known));
      }
    }
  }
}

Json path_parameter(std::string_view name, std::string_view description) {
  return Json::object({{"name", name},
                       {"in", "path"},
                       {"description", description},
                       {"required", true},
                       {"schema", Json::object({{"type", "string"}, {"uniqueItems", true}})}});
}

Json pretty_parameter() {
  return parameter({"pretty", "string", "If 'true', then the output is pretty printed."});
}

/// The operations of one resource version, or of one of its subresources.
class PathWriter {
 public:
  PathWriter(const ResourceDef& def, const ResourceVersion& version, OpenApiSchemas& schemas,
             Json& paths)
      : def_(def), version_(version), schemas_(schemas), paths_(paths) {
    base_ = def.group.empty() ? "/api/" : "/apis/" + def.group + "/";
    base_ += version.name + "/";
    stem_ = operation_stem(def.group, version.name, def.builtin);
    own_ = schemas_.add_kind(def, version);
    own_gvk_ = gvk(def.group, version.name, def.kind);
  }

  void write() {
    const std::string items = def_.namespaced ? base_ + "namespaces/{namespace}/" : base_;
    write_collection(items + def_.plural);
    if (def_.virtual_create_only) {
      return;
    }
    if (def_.namespaced && def_.has_verb("list")) {
      Json& path = paths_[base_ + def_.plural];
      path["parameters"] = Json::array({pretty_parameter()});
      path["get"] = list_operation("list" + stem_ + def_.kind + "ForAllNamespaces");
    }
    const std::string item = items + def_.plural + "/{name}";
    write_item(item);
    write_views(item);
  }

 private:
  [[nodiscard]] static Json gvk(std::string_view group, std::string_view version,
                                std::string_view kind) {
    return Json::object({{"group", group}, {"kind", kind}, {"version", version}});
  }
  [[nodiscard]] bool is_served(std::string_view verb) const {
    return def_.virtual_create_only ? verb == "create" : def_.has_verb(verb);
  }
  /// "CoreV1NamespacedConfigMap" + suffix
  [[nodiscard]] std::string subject(std::string_view suffix = {}) const {
    return stem_ + (def_.namespaced ? "Namespaced" : "") + def_.kind + std::string(suffix);
  }

  /// Media types of bodies and answers.
  [[nodiscard]] Json content(const Json& schema, bool with_stream = false) const {
    Json out;
    std::vector<std::string> types = {"application/json", "application/yaml"};
    if (def_.builtin) {
      types.emplace_back("application/vnd.kubernetes.protobuf");
    }
    if (with_stream) {
      types.emplace_back("application/json;stream=watch");
    }
    for (const std::string& type : types) {
      out[type]["schema"] = schema;
    }
    return out;
  }

  [[nodiscard]] Json operation(std::string_view action, std::string id, std::string description,
                               const Json& answer, std::initializer_list<const char*> codes,
                               const Json& kind, bool with_stream = false) const {
    Json out = Json::object({{"operationId", std::move(id)},
                             {"description", std::move(description)},
                             {"x-kubernetes-action", action},
                             {"x-kubernetes-group-version-kind", kind}});
    std::string tag = operation_stem(def_.group, "", def_.builtin);
    tag.front() = to_lower(tag.substr(0, 1)).front();
    out["tags"].push_back(tag + "_" + version_.name);
    Json& responses = out["responses"];
    for (const std::string_view code : codes) {
      responses[code] = Json::object({{"description", code == "200"   ? "OK"
                                                      : code == "201" ? "Created"
                                                                      : "Accepted"},
                                      {"content", content(answer, with_stream)}});
    }
    responses["401"]["description"] = "Unauthorized";
    return out;
  }

  [[nodiscard]] Json list_operation(std::string id) const {
    Json out = operation("list", std::move(id), "list or watch objects of kind " + def_.kind,
                         schemas_.add_list(def_, version_), {"200"}, own_gvk_, true);
    add_parameters(out, {"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector",
                         "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents",
                         "timeoutSeconds", "watch"});
    return out;
  }

  void require_body(Json& operation, Json body_content, bool required = true) const {
    operation["requestBody"]["content"] = std::move(body_content);
    if (required) {
      operation["requestBody"]["required"] = true;
    }
  }

  Json& path(const std::string& name, bool is_item) {
    Json parameters = Json::array();
    if (is_item) {
      parameters.push_back(path_parameter("name", "name of the " + def_.kind));
    }
    if (def_.namespaced) {
      parameters.push_back(path_parameter(
          "namespace", "object name and auth scope, such as for teams and projects"));
    }
    parameters.push_back(pretty_parameter());
    Json& out = paths_[name];
    out["parameters"] = std::move(parameters);
    return out;
  }

  void write_collection(const std::string& name) {
    if (is_served("list")) {
      path(name, false)["get"] = list_operation("list" + subject());
    }
    if (is_served("create")) {
      Json post = operation("post", "create" + subject(), "create a " + def_.kind, own_,
                            {"200", "201", "202"}, own_gvk_);
      require_body(post, content(own_));
      add_parameters(post, {"dryRun", "fieldManager", "fieldValidation"});
      path(name, false)["post"] = std::move(post);
    }
    if (is_served("deletecollection")) {
      Json remove = operation(
          "deletecollection",
          "delete" + stem_ + "Collection" + (def_.namespaced ? "Namespaced" : "") + def_.kind,
          "delete collection of " + def_.kind, schemas_.add_type("Status"), {"200"}, own_gvk_);
      require_body(remove, content(schemas_.add_type("DeleteOptions")), false);
      add_parameters(remove, {"continue", "dryRun", "fieldSelector", "gracePeriodSeconds",
                              "labelSelector", "limit", "orphanDependents", "propagationPolicy",
                              "resourceVersion", "resourceVersionMatch", "timeoutSeconds"});
      path(name, false)["delete"] = std::move(remove);
    }
  }

  [[nodiscard]] Json patch_operation(std::string id, const std::string& what, const Json& schema,
                                     const Json& kind) const {
    Json out =
        operation("patch", std::move(id), "partially update " + what, schema, {"200", "201"}, kind);
    Json types;
    for (const std::string_view type : kPatchTypes) {
      if (def_.builtin || type != kStrategicPatch) {
        types[type]["schema"] = schemas_.add_type("Patch");
      }
    }
    require_body(out, std::move(types));
    add_parameters(out, {"dryRun", "fieldManager", "fieldValidation", "force"});
    return out;
  }

  /// get, update and patch of an item or of a view of it.
  void write_view(const std::string& name, std::string_view verb, std::string_view suffix,
                  const Json& schema, const Json& kind) {
    const std::string what = suffix.empty()
                                 ? "the specified " + def_.kind
                                 : to_lower_first(suffix) + " of the specified " + def_.kind;
    if (verb == "get") {
      path(name, true)["get"] =
          operation("get", "read" + subject(suffix), "read " + what, schema, {"200"}, kind);
    } else if (verb == "update") {
      Json put = operation("put", "replace" + subject(suffix), "replace " + what, schema,
                           {"200", "201"}, kind);
      require_body(put, content(schema));
      add_parameters(put, {"dryRun", "fieldManager", "fieldValidation"});
      path(name, true)["put"] = std::move(put);
    } else if (verb == "patch") {
      path(name, true)["patch"] = patch_operation("patch" + subject(suffix), what, schema, kind);
    } else if (verb == "create") {
      Json post = operation("post", "create" + subject(suffix), "create " + what, schema,
                            {"200", "201", "202"}, kind);
      require_body(post, content(schema));
      add_parameters(post, {"dryRun", "fieldManager", "fieldValidation"});
      path(name, true)["post"] = std::move(post);
    }
  }

  void write_item(const std::string& name) {
    for (const std::string_view verb : {"get", "update", "patch"}) {
      if (is_served(verb)) {
        write_view(name, verb, {}, own_, own_gvk_);
      }
    }
    if (is_served("delete")) {
      const Json answer = def_.delete_answers_object ? own_ : schemas_.add_type("Status");
      Json remove = operation("delete", "delete" + subject(), "delete a " + def_.kind, answer,
                              {"200", "202"}, own_gvk_);
      require_body(remove, content(schemas_.add_type("DeleteOptions")), false);
      add_parameters(remove,
                     {"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"});
      path(name, true)["delete"] = std::move(remove);
    }
  }

  /// Subresources.
  void write_views(const std::string& item) {
    const std::initializer_list<std::string_view> kViewVerbs = {"get", "update", "patch"};
    if (version_.status) {
      for (const std::string_view verb : kViewVerbs) {
        write_view(item + "/status", verb, "Status", own_, own_gvk_);
      }
    }
    if (!version_.scale.spec_replicas.empty()) {
      const Json scale = schemas_.add_type("Scale");
      for (const std::string_view verb : kViewVerbs) {
        write_view(item + "/scale", verb, "Scale", scale, gvk(kScaleGroup, "v1", "Scale"));
      }
    }
    for (const ResourceDef::ExtraSubresource& extra : def_.subresources) {
      const bool foreign = extra.kind != def_.kind;
      const Json schema = foreign ? schemas_.add_type(extra.kind) : own_;
      const Json kind = extra.version.empty() ? gvk(def_.group, version_.name, extra.kind)
                                              : gvk(extra.group, extra.version, extra.kind);
      for (const std::string& verb : extra.verbs) {
        write_view(item + "/" + extra.name, verb, to_upper_first(extra.name), schema, kind);
      }
    }
  }

  [[nodiscard]] static std::string to_lower_first(std::string_view text) {
    std::string out(text);
    if (!out.empty() && out[0] >= 'A' && out[0] <= 'Z') {
      out[0] = static_cast<char>(out[0] - 'A' + 'a');
    }
    return out;
  }
  [[nodiscard]] static std::string to_upper_first(std::string_view text) {
    std::string out(text);
    if (!out.empty() && out[0] >= 'a' && out[0] <= 'z') {
      out[0] = static_cast<char>(out[0] - 'a' + 'A');
    }
    return out;
  }

  const ResourceDef& def_;
  const ResourceVersion& version_;
  OpenApiSchemas& schemas_;
  Json& paths_;
  std::string base_, stem_;
  Json own_, own_gvk_;
};

}  // namespace

void add_openapi_paths(const ResourceDef& def, const ResourceVersion& version,
                       OpenApiSchemas& schemas, Json& paths) {
  PathWriter(def, version, schemas, paths).write();
}

void add_openapi_discovery_path(std::string_view path, std::string_view operation_id,
                                std::string_view description, Json& paths) {
  Json get = Json::object({{"operationId", operation_id}, {"description", description}});
  Json& ok = get["responses"]["200"];
  ok["description"] = "OK";
  for (const std::string_view type : {"application/json", "application/yaml"}) {
    ok["content"][type]["schema"]["type"] = "object";
  }
  get["responses"]["401"]["description"] = "Unauthorized";
  paths[path]["get"] = std::move(get);
}

}  // namespace kintsugi::apiserver::internal
