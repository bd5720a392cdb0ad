#include <algorithm>

#include "apiserver/internal/existence.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/health.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "base/strings.h"
#include "krm/request_target.h"
#include "krm/status.h"
#include "serving/metrics_answer.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr int kWaitTurns = 1'000;  ///< of the loop, for definitions that are on their way

enum class Scope : std::uint8_t { kCollection, kItem, kSubresource };

bool group_is_served(const Registry& registry, const Request& request) {
  if (request.info.group.empty()) {
    return true;
  }
  const std::vector<ResourcePtr> all = registry.all(request.cluster);
  return std::any_of(all.begin(), all.end(), [&](const ResourcePtr& def) {
    return def->builtin && def->group == request.info.group;
  });
}

void answer_unserved(const RequestPtr& request) {
  const Registry& registry = request->registry();
  if (!registry.ready(request->cluster)) {
    send_error(*request, krm::unavailable("the resource definitions are still being loaded", 1));
  } else if (request->view != nullptr || !group_is_served(registry, *request)) {
    send_unknown_path(*request);
  } else {
    send_error(*request, krm::path_not_found());
  }
}

/// Finds version and subresource; answers and returns false when the path is not served.
/// Asks for metadata alone: then a wildcard needs no identity (AM-479).
bool wants_partial(const Request& request) {
  const std::optional<Form> form = negotiate(request.accept, Offer{true, false, true});
  return form && (form->shape == Shape::kPartial || form->shape == Shape::kPartialList);
}

bool find_target(const RequestPtr& request, Target& target) {
  const krm::RequestInfo& info = request->info;
  ResourcePtr def = request->registry().find(request->cluster, info.group, info.resource);
  if (def == nullptr && request->cluster == "*" && request->view == nullptr &&
      info.resource.find(':') == std::string::npos && wants_partial(*request)) {
    def = request->registry().find_any_identity(info.group, info.resource);
  }
  if (def == nullptr) {
    answer_unserved(request);
    return false;
  }
  const ResourceVersion* version = def->version(info.version);
  if (version == nullptr || !version->served) {
    if (request->view != nullptr) {
      send_unknown_path(*request);
    } else {
      send_error(*request, krm::path_not_found());
    }
    return false;
  }
  target.kind = make_served_kind(def, version);
  target.ns = def->namespaced ? info.ns : std::string();
  target.name = info.name;
  target.subresource = info.subresource;
  return true;
}

/// 404 for namespaces before cluster-scoped resources, items of namespaced ones without, and extra
/// segments.
bool path_fits(const RequestPtr& request, const Target& target) {
  const krm::RequestInfo& info = request->info;
  const ResourceDef& def = *target.kind->def;
  const bool in_namespace = info.parts.size() > 2 && info.parts[0] == "namespaces" &&
                            info.parts[2] == info.resource && info.resource != "status" &&
                            info.resource != "finalize";
  const std::size_t used =
      (in_namespace ? 3 : 1) + (info.path_has_name ? 1 : 0) + (info.subresource.empty() ? 0 : 1);
  const bool fits =
      info.parts.size() == used && in_namespace == (def.namespaced && !info.ns.empty());
  const bool nowhere = def.virtual_create_only && info.subresource.empty() &&
                       (info.path_has_name || (def.namespaced && info.ns.empty()));
  if (info.parts.size() > used && !info.subresource.empty() && !def.builtin) {
    send_error(*request, krm::not_found(def.group, def.plural, target.name));
    return false;
  }
  if (!fits || nowhere || (def.namespaced && info.ns.empty() && info.path_has_name)) {
    send_error(*request, krm::path_not_found());
    return false;
  }
  return true;
}

/// Sets target.extra; false with an answer when the kind has no such subresource.
bool find_subresource(const RequestPtr& request, Target& target, std::vector<std::string>& verbs) {
  const ResourceDef& def = *target.kind->def;
  const ResourceVersion& version = *target.kind->version;
  if ((target.subresource == "status" && version.status) ||
      (target.subresource == "scale" && !version.scale.spec_replicas.empty())) {
    verbs = {"get", "patch", "update"};
    return true;
  }
  for (const ResourceDef::ExtraSubresource& extra : def.subresources) {
    if (extra.name == target.subresource) {
      target.extra = &extra;
      verbs = extra.verbs;
      return true;
    }
  }
  send_error(*request, def.builtin ? krm::path_not_found()
                                   : krm::not_found(def.group, def.plural, target.name));
  return false;
}

Error verb_not_allowed(const Target& target, std::string_view verb) {
  const ResourceDef& def = *target.kind->def;
  if (def.builtin || verb.empty()) {
    return krm::method_not_allowed();
  }
  ErrorDetail detail;
  detail.message =
      std::string(verb) + " is not supported on resources of kind \"" + def.qualified_name() + "\"";
  detail.group = def.group;
  detail.kind = def.plural;
  return Error(Errc::kMethodNotAllowed, std::move(detail));
}

/// The verb of the method on this kind of path, "" when there is none (AM-052, AM-053).
std::string_view verb_of(std::string_view method, Scope scope, const Request& request,
                         const Target& target) {
  if (scope == Scope::kCollection) {
    const bool whole = target.kind->def->namespaced && target.ns.empty();
    if (method == "GET") {
      return request.info.verb == "watch" ? "watch" : "list";
    }
    if (whole) {
      return "";
    }
    return method == "POST" ? "create" : method == "DELETE" ? "deletecollection" : "";
  }
  if (method == "GET") {
    return "get";
  }
  if (method == "PUT") {
    return "update";
  }
  if (method == "PATCH") {
    return "patch";
  }
  if (method == "DELETE") {
    return "delete";
  }
  return method == "POST" && scope == Scope::kSubresource ? "create" : "";
}

void dispatch(const RequestPtr& request, const Target& target, std::string_view verb) {
  const bool own_answer =
      target.kind->def->virtual_create_only || (target.extra != nullptr && target.extra->answer);
  if (own_answer) {
    handle_answer(request, target);
  } else if (verb == "get") {
    handle_get(request, target);
  } else if (verb == "list") {
    handle_list(request, target);
  } else if (verb == "watch") {
    handle_watch(request, target);
  } else if (verb == "create") {
    handle_create(request, target);
  } else if (verb == "update") {
    handle_update(request, target);
  } else if (verb == "patch") {
    handle_patch(request, target);
  } else if (verb == "delete") {
    handle_delete(request, target);
  } else {
    handle_delete_collection(request, target);
  }
}

void add_deprecation(Request& request, const Target& target) {
  const ResourceVersion& version = *target.kind->version;
  if (version.deprecated) {
    request.warn(version.deprecation_warning.empty()
                     ? target.kind->api_version + " " + target.kind->def->kind + " is deprecated"
                     : version.deprecation_warning);
  }
}

bool is_served(const Request& request) {
  const ResourcePtr def =
      request.registry().find(request.cluster, request.info.group, request.info.resource);
  const ResourceVersion* version = def == nullptr ? nullptr : def->version(request.info.version);
  return version != nullptr && version->served;
}

void route_resource(const RequestPtr& request);

/// A client that has read from the store that a definition is established never meets 404, although
/// this loop learns of it a moment later (AM-381).
bool wait_for_definition(const RequestPtr& request) {
  Server& server = request->server;
  if (request->caught_up || is_served(*request) ||
      server.hub().applied() >= server.store().current()) {
    return false;
  }
  request->caught_up = true;
  struct Wait {
    RequestPtr request;
    store::Revision until;
    int turns;
    void step(const std::shared_ptr<Wait>& self) {
      if (request->is_gone()) {
        return;
      }
      if (request->server.hub().applied() >= until || --turns == 0) {
        route_resource(request);
        return;
      }
      request->server.loop().post([self] { self->step(self); });
    }
  };
  const auto wait = std::make_shared<Wait>(Wait{request, server.store().current(), kWaitTurns});
  server.loop().post([wait] { wait->step(wait); });
  return true;
}

/// What the client is content with may be older than what another process has written (GR-119).
/// Others are asked for what is newest: reads that do not say how old it may be, and what goes
/// where nothing is served yet.
bool wants_newest(const Request& request) {
  const std::string_view method = request.head.method;
  if (method != "GET" && method != "HEAD") {
    return !is_served(request);
  }
  const std::string_view version = request.info.query.get("resourceVersion").value_or("");
  return version.empty() || parse_decimal(version).value_or(0) > request.server.store().current();
}

/// A watch of what is not there yet would begin behind a difference that the store is told
/// (GR-115).
bool begins_ahead(const Request& request) {
  const std::string_view version = request.info.query.get("resourceVersion").value_or("");
  return request.info.verb == "watch" &&
         parse_decimal(version).value_or(0) > request.server.store().current();
}

/// On a store that others write, too: until what they have written before shows here.
bool wait_for_newest(const RequestPtr& request) {
  if (request->is_current || !request->server.store().is_shared() || !wants_newest(*request)) {
    return false;
  }
  request->is_current = true;
  request->server.synchronize([request](const Expected<void>& done) {
    if (request->is_gone()) {
      return;
    }
    if (!done && (request->info.query.get("resourceVersion").value_or("").empty() ||
                  begins_ahead(*request))) {
      send_error(*request, krm::unavailable("the store does not tell what is newest", 1));
    } else {
      route_resource(request);  // which finds a version that is still too large
    }
  });
  return true;
}

void route_resource(const RequestPtr& request) {
  if (request->info.verb == "proxy") {  // the path form that Kubernetes has given up
    send_error(*request, krm::path_not_found());
    return;
  }
  if (request->info.resource.ends_with(':')) {  // KK-378
    send_error(*request, krm::missing_identity(request->info.resource));
    return;
  }
  if (wait_for_newest(request) || wait_for_definition(request)) {
    return;
  }
  Target target;
  if (!find_target(request, target)) {
    return;
  }
  const krm::RequestInfo& info = request->info;
  const Scope scope = !info.subresource.empty()                      ? Scope::kSubresource
                      : info.path_has_name && !info.deprecated_watch ? Scope::kItem
                                                                     : Scope::kCollection;
  std::vector<std::string> verbs = target.kind->def->verbs;
  if (target.kind->def->virtual_create_only) {
    verbs = {"create"};
  }
  const auto is_subresource = [&] {
    return scope != Scope::kSubresource || find_subresource(request, target, verbs);
  };
  // Views look for the subresource first.
  const bool found = request->view == nullptr ? path_fits(request, target) && is_subresource()
                                              : is_subresource() && path_fits(request, target);
  if (!found) {
    return;
  }
  std::string_view verb = verb_of(request->head.method, scope, *request, target);
  if (info.deprecated_watch) {
    verb = request->head.method == "GET" ? "watch" : "";
  }
  if (verb.empty() || std::find(verbs.begin(), verbs.end(), verb) == verbs.end()) {
    send_error(*request, scope == Scope::kSubresource ? verb_not_allowed(target, verb)
                                                      : krm::method_not_allowed());
    return;
  }
  if (request->cluster == "*" && verb != "list" && verb != "watch") {
    send_error(*request, krm::wildcard_not_allowed(verb, target.kind->def->qualified_name()));
    return;
  }
  if (request->view != nullptr && request->cluster == "*" && !target.ns.empty()) {
    ErrorDetail detail;  // message and code alone, as the reference sends it
    detail.http_status = 400;
    detail.message =
        "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to "
        "namespace " +
        target.ns;
    send_error(*request, Error(Errc::kInternal, std::move(detail)));
    return;
  }
  add_deprecation(*request, target);
  dispatch(request, target, verb);
}

/// Documents that the owner of the server adds (AM-432); false: it has none at the path.
bool send_own_document(const RequestPtr& request) {
  const ServerParams& params = request->server.params();
  const std::string_view method = request->head.method;
  if (!params.document || (method != "GET" && method != "HEAD")) {
    return false;
  }
  const std::optional<krm::Json> document = params.document(request->api_root, request->info.path);
  if (!document) {
    return false;
  }
  if (document->is_string()) {
    serving::MetricsPage page =
        serving::metrics_page(request->header("accept"), std::string(document->as_string()));
    http::HeaderList headers = answer_headers(*request, page.content_type);
    headers.add("vary", "Accept");
    send_body(*request, 200, std::move(headers), std::move(page.body));
    return true;
  }
  http::HeaderList headers = answer_headers(
      *request, document->find("keys") != nullptr ? std::string_view("application/jwk-set+json")
                                                  : std::string_view("application/json"));
  if (!request->info.path.starts_with("/debug/")) {
    headers.set("cache-control", "public, max-age=3600");
  }
  send_body(*request, 200, std::move(headers), document->dump());
  return true;
}

}  // namespace

bool negotiate_form(Request& request, const ServedKind& kind, bool is_list) {
  const bool builtin = kind.def->builtin;
  const std::optional<Form> form = negotiate(request.accept, Offer{true, builtin, true});
  const bool pretty = request.form.pretty;
  if (!form) {
    const std::string types =
        builtin ? "application/json, application/yaml, application/vnd.kubernetes.protobuf"
                : "application/json, application/yaml";
    request.form = Form();
    request.form.pretty = pretty;
    // Typed kinds are refused by the router when no media type is known at all.
    const std::string text = builtin && !names_known_type(request.accept)
                                 ? "406: Not Acceptable\n\nAvailable representations: "
                                 : "only the following media types are accepted: ";
    send_error(request, Error(Errc::kNotAcceptable, text + types));
    return false;
  }
  request.form = *form;
  request.form.pretty = pretty;
  const bool wrong_item = form->shape == Shape::kPartialList && !is_list;
  const bool wrong_list = form->shape == Shape::kPartial && is_list;
  if (wrong_item || wrong_list) {
    const std::string type =
        (builtin ? "*core." : "*unstructured.") + kind.def->kind + (is_list ? "List" : "");
    send_error(request,
               Error(Errc::kNotAcceptable,
                     wrong_item ? "you requested PartialObjectMetadataList, but the requested "
                                  "object is not a list (" +
                                      type + ")"
                                : "you requested PartialObjectMetadata, but the requested object "
                                  "is a list (" +
                                      type + ")"));
    return false;
  }
  return true;
}

void route(const RequestPtr& request) {
  if (request->info.is_resource) {
    route_resource(request);
  } else if (is_health_path(request->info.path) && request->view == nullptr) {
    handle_health(request);
  } else if (request->info.path == "/version" || request->info.path == "/version/") {
    handle_version(request);
  } else if (request->info.path.starts_with("/version/")) {
    send_error(*request, krm::path_not_found());
  } else if (is_shard_endpoint(*request)) {
    answer_shard_endpoint(request);
  } else if (!send_own_document(request)) {
    handle_discovery(request);
  }
}

}  // namespace kintsugi::apiserver::internal
