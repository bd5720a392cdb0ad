#include "workers/messaging/control/namespace_control.h"

#include "workers/messaging/control/internal/tenant_wish.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);

const CachedNamespace* find_namespace(const Site& site, const Key& key) {
  return Directory::find(*site.directory().namespaces, key.view());
}

TenantStep step_of(const Site& site, const Key& key) {
  const CachedNamespace* const cached = find_namespace(site, key);
  if (cached == nullptr) {
    return {};
  }
  const QueueKey tenant{key.cluster, key.name, "default"};
  const auto* const has = Directory::find(*site.directory().tenants, tenant);
  TenantWish wish;
  wish.cluster = key.cluster;
  wish.ns = key.name;
  wish.uid = cached->uid;
  wish.wanted = cached->tenant ? &*cached->tenant : nullptr;
  wish.unknown_value = cached->unknown_value;
  wish.deleting = cached->deleting;
  wish.tenant = has == nullptr ? nullptr : &has->parsed.object;
  wish.tenant_deleting = has != nullptr && has->meta.deleting;
  wish.project = Directory::find(*site.directory().projects, tenant) != nullptr;
  return tenant_step(wish);
}

ApiWrite write_of(const Key& key, TenantStep step) {
  using Kind = TenantStep::Kind;
  ApiWrite out;
  const QueueKey tenant{key.cluster, key.name, "default"};
  out.path = object_path(MessagingKind::kTenant, tenant);
  if (step.kind == Kind::kCreate) {
    out.method = "POST";
    out.path.resize(out.path.size() - std::string_view("/default").size());
  } else if (step.kind == Kind::kPatch) {
    out.method = "PATCH";
    out.content_type = kMergePatch;
  } else {
    out.method = "DELETE";
  }
  out.body = std::move(step.body);
  return out;
}

}  // namespace

net::Task<Outcome> NamespaceControl::reconcile(Key key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedNamespace* const cached = find_namespace(site_, key);
  if (cached == nullptr) {
    co_return Outcome::done();
  }
  if (cached->unknown_value) {
    site_.tell({MessagingKind::kNamespace, key},
               {true, "UnknownAnnotationValue",
                "enmasse.io/messaging is neither true nor false and is ignored"});
  }
  TenantStep step = step_of(site_, key);
  if (step.kind == TenantStep::Kind::kNothing) {
    co_return Outcome::done();
  }
  ApiWrite write = write_of(key, std::move(step));
  const Step may = site_.step({MessagingKind::kNamespace, key});
  net::Task<ApiAnswer> writing = site_.unit().write(may, std::move(write));
  const ApiAnswer answer = co_await writing;
  // Of what others did meanwhile the watch tells, and the namespace has its turn again.
  const bool overtaken = answer.is(409) || answer.is(404);
  co_return overtaken ? Outcome::done() : outcome_of(answer, RequestKind::kUpdate);
}

}  // namespace kintsugi::workers
