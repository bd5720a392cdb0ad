#include "apiserver/internal/encode.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/versions.h"
#include "apiserver/keys.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

void send_scale(Request& request, const Target& target, const Expected<krm::Json>& object) {
  if (!object) {
    send_error(request, object.error());
    return;
  }
  const Expected<krm::Json> scale = scale_of(*target.kind, *object);
  if (!scale) {
    send_error(request, scale.error());
    return;
  }
  const ObjectEncoder encoder(target.kind, request.form, IncludeObject::kMetadata);
  send_json(request, 200, encoder.object_text(*scale));
}

/// Of another version, which takes the webhook.
void send_converted(const RequestPtr& request, const Target& target, IncludeObject include,
                    const store::Entry& entry) {
  Expected<krm::Json> object = target.kind->decode(entry.value.view(), entry.modified);
  if (!object) {
    send_error(*request, object.error());
    return;
  }
  request->server.conversions().convert_one(
      request->cluster, target.kind, std::move(*object),
      [request, target, include](const Expected<krm::Json>& converted) {
        if (request->is_gone()) {
          return;
        }
        if (target.subresource == "scale") {
          send_scale(*request, target, converted);
        } else if (!converted) {
          send_error(*request, converted.error());
        } else {
          const ObjectEncoder encoder(target.kind, request->form, include);
          send_json(*request, 200, encoder.object_text(*converted));
        }
      });
}

void send_wait(Request& request, const ErrorDetail& detail) {
  http::HeaderList headers = answer_headers(request, "text/plain; charset=utf-8");
  headers.add("retry-after", std::to_string(detail.retry_after_seconds));
  headers.add("x-content-type-options", "nosniff");
  send_body(request, 429, std::move(headers), detail.message + "\n");
}

/// Hooks::computed; false: the name is that of a stored object.
bool answer_computed(const RequestPtr& request, const Target& target, IncludeObject include) {
  const auto& computed = target.kind->def->hooks.computed;
  if (!computed || !target.subresource.empty()) {
    return false;
  }
  return computed(request->user, request->cluster, target.name,
                  [request, target, include](const Expected<krm::Json>& object) {
                    if (request->is_gone()) {
                      return;
                    }
                    if (object) {
                      const ObjectEncoder encoder(target.kind, request->form, include);
                      send_json(*request, 200, encoder.object_text(*object));
                    } else if (object.error().code() == Errc::kTooManyRequests) {
                      send_wait(*request, object.error().detail());
                    } else {
                      send_error(*request, object.error());
                    }
                  });
}

}  // namespace

void handle_get(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, false)) {
    return;
  }
  if (request->info.query.get("export").value_or("") == "true") {
    send_error(*request, krm::bad_request("the export parameter, deprecated since v1.14, is no "
                                          "longer supported"));
    return;
  }
  const Expected<store::Revision> wanted = parse_get_version(request->info.query);
  if (!wanted) {
    send_error(*request, wanted.error());
    return;
  }
  const Expected<IncludeObject> include =
      parse_include_object(request->info.query.get("includeObject"));
  if (!include) {
    send_error(*request, include.error());
    return;
  }
  if (answer_computed(request, target, *include)) {
    return;
  }
  store::Store& store = request->server.store();
  if (const store::Revision current = store.current(); *wanted > current) {
    send_error(*request, version_too_large(*wanted, current));
    return;
  }
  const ResourceDef& def = *target.kind->def;
  const Shown shown = shown_by(request->view, request->cluster, def);
  const std::optional<std::string_view> name = shown.key_name(target.name);
  const std::optional<std::string> key =
      name ? object_key(target.kind->storage_name, request->cluster, target.ns, *name)
           : std::nullopt;
  Expected<store::Entry> entry = key ? store.get(*key) : fail(Errc::kNotFound);
  if (entry && !is_visible(request->view, request->cluster, def, *key, entry->value.view())) {
    entry = fail(Errc::kNotFound);
  }
  if (!entry) {
    send_error(*request, entry.error().code() == Errc::kNotFound
                             ? krm::not_found(def.group, def.plural, target.name)
                         : is_store_fault(entry.error()) ? store_fault(entry.error(), "get", def)
                                                         : entry.error().clone());
    return;
  }
  if (target.kind->needs_webhook(entry->value.view())) {
    send_converted(request, target, *include, *entry);
    return;
  }
  if (target.subresource == "scale") {
    send_scale(*request, target, target.kind->decode(entry->value.view(), entry->modified));
    return;
  }
  const ObjectEncoder encoder(target.kind, request->form, *include);
  std::string text;
  if (Expected<void> done = encoder.append_object(text, entry->value.view(), entry->modified);
      !done) {
    send_error(*request, done.error());
    return;
  }
  send_json(*request, 200, std::move(text));
}

}  // namespace kintsugi::apiserver::internal
