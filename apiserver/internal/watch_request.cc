#include <algorithm>
#include <random>

#include "apiserver/internal/handlers.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/versions.h"
#include "apiserver/internal/watcher.h"
#include "apiserver/keys.h"
#include "auth/web_socket_token.h"
#include "auth/x509_identity.h"
#include "http/web_socket.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::int64_t kMinLifetime = 1'800;  ///< [s] of a watch without timeoutSeconds
constexpr std::int64_t kMaxLifetime = 3'600;
constexpr Duration kViewBookmarks = seconds(25);  ///< of virtual workspaces: within 30 s (TP-075)

Duration lifetime_of(const ListOptions& options) {
  if (options.timeout_seconds.value_or(0) > 0) {
    return seconds(std::min(*options.timeout_seconds, std::int64_t{86'400}));
  }
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> pick(kMinLifetime, kMaxLifetime);
  return seconds(pick(random));
}

/// Form of a watch: JSON or protobuf, never YAML (AM-099); answers 406 itself.
bool negotiate_watch(Request& request, const ServedKind& kind) {
  const bool builtin = kind.def->builtin;
  const std::optional<Form> form = negotiate(request.accept, Offer{false, builtin, true});
  if (!form) {
    request.form = Form();
    if (builtin && !names_known_type(request.accept)) {
      send_error(request,
                 Error(Errc::kNotAcceptable,
                       "406: Not Acceptable\n\nAvailable representations: application/json, "
                       "application/yaml, application/vnd.kubernetes.protobuf, "
                       "application/json;stream=watch, "
                       "application/vnd.kubernetes.protobuf;stream=watch"));
      return false;
    }
    send_error(request, Error(Errc::kNotAcceptable,
                              builtin ? "only the following media types are accepted: "
                                        "application/json;stream=watch, "
                                        "application/vnd.kubernetes.protobuf;stream=watch"
                                      : "only the following media types are accepted: "
                                        "application/json;stream=watch"));
    return false;
  }
  request.form = *form;
  return true;
}

/// Where the watch begins (10.1 rules 1 and 7).
Expected<void> place(const ListOptions& options, const store::Store& store,
                     Watcher::Params& params) {
  const store::Revision current = store.current();
  const bool unset = options.revision == 0;
  if (options.send_initial_events.value_or(false)) {
    params.from_state = true;
    params.initial_end = options.allow_bookmarks;
    if (options.revision > current) {
      return fail(version_too_large(options.revision, current));
    }
  } else if (options.send_initial_events.has_value()) {
    params.after = unset ? current : options.revision;
  } else {
    params.from_state = unset;
    params.after = options.revision;
  }
  return {};
}

/// What the identity of who asks rests on.
auth::ProofPtr proof_of(const Request& request) {
  const http::PeerInfo& peer = request.exchange->stream().peer();
  const auto& find = request.server.params().proof;
  if (!find) {
    return auth::proof_of(peer);
  }
  const auth::UserInfo& requester =
      request.impersonator == nullptr ? request.user : *request.impersonator;
  return find(request.head, request.token, peer, cluster_hint(request.head.target), requester);
}

}  // namespace

void handle_watch(const RequestPtr& request, const Target& target) {
  std::optional<std::string> accept;
  if (http::asks_for_web_socket(request->head)) {
    Expected<std::string> answer = http::web_socket_accept(request->head);
    if (!answer) {
      send_error(*request, answer.error());
      return;
    }
    accept = std::move(*answer);
  }
  if (!negotiate_watch(*request, *target.kind)) {
    return;
  }
  Expected<ListOptions> options = parse_list_options(request->info.query, true);
  if (!options) {
    send_error(*request, options.error());
    return;
  }
  options->revision = request->watch_after != 0 ? request->watch_after : options->revision;
  const Expected<IncludeObject> include =
      parse_include_object(request->info.query.get("includeObject"));
  if (!include) {
    send_error(*request, include.error());
    return;
  }
  Server& server = request->server;
  const ResourceDef& def = *target.kind->def;
  const bool wildcard = request->cluster == "*";
  Watcher::Params params;
  params.encoding = server.hub().encoding(target.kind, request->form, *include);
  params.range = collection_prefix(target.kind->storage_name, request->cluster, target.ns);
  params.cluster = request->cluster;
  params.rights = std::make_shared<const WatchRights>(
      WatchRights{server.watch_review().share(request->asked_user()), request->info.ns,
                  request->info.name, request->view, proof_of(*request)});
  Shown shown = shown_by(request->view, request->cluster, def);
  std::string_view name_filter = request->info.path_has_name ? target.name : std::string_view();
  if (!target.name.empty() && !wildcard && shown.names == nullptr &&
      (!def.namespaced || !target.ns.empty())) {
    if (const auto key =
            object_key(target.kind->storage_name, request->cluster, target.ns, target.name)) {
      params.range = *key;
      params.one_key = true;
      name_filter = {};
    }
  }
  Expected<SelectionPtr> selection =
      Selection::make(params.encoding->kind(), *options,
                      wildcard ? std::string_view(target.ns) : std::string_view(), name_filter,
                      std::move(shown), known_labels(request->view, request->cluster, def));
  if (!selection) {
    send_error(*request, selection.error());
    return;
  }
  params.selection = std::move(*selection);
  params.bookmarks = options->allow_bookmarks;
  if (request->view != nullptr) {
    params.bookmark_interval = kViewBookmarks;
  }
  params.lifetime = lifetime_of(*options);
  const bool protobuf = request->form.format == Format::kProtobuf;
  http::HeaderList headers = answer_headers(
      *request, protobuf ? std::string_view("application/vnd.kubernetes.protobuf;stream=watch")
                         : content_type(Format::kJson));
  if (accept) {
    params.web_socket = true;
    headers.add("upgrade", "websocket");
    headers.add("sec-websocket-accept", *accept);
    if (const std::string_view chosen = auth::chosen_subprotocol(request->head); !chosen.empty()) {
      headers.add("sec-websocket-protocol", chosen);
    }
  }
  // The stream opens in any case: clients of WatchList look for the event (AM-296).
  const Expected<void> placed = place(*options, server.store(), params);
  Exchange& exchange = *request->exchange;
  auto watcher = std::make_unique<Watcher>(exchange, server, std::move(params));
  Watcher& running = *watcher;
  send_stream(*request, std::move(headers), std::move(watcher), accept ? 101 : 200);
  if (placed) {
    running.start();
  } else {
    running.fail_with(placed.error());
  }
}

}  // namespace kintsugi::apiserver::internal
