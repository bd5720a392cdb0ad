#include "apiserver/internal/write_op.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "apiserver/internal/respond.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_limits.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/inner_span.h"
#include "base/time.h"
#include "krm/annotations.h"
#include "krm/managed_fields.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kBesidesObject = 8 * 1024;  // of store::Limits::value_bytes

/// In the storage version; what a webhook has to convert was converted before.
std::string encode_custom(const WriteOp& op) {
  const ServedKind& kind = op.written_as == nullptr ? *op.kind : *op.written_as;
  if (kind.def->webhook != nullptr) {
    return encode_stored(*op.object,
                         {kind.version->name, op.converted ? 0 : kind.version->schema_digest});
  }
  const ResourceVersion& storage = kind.def->storage_version();
  const bool shaped = storage.schema_digest == kind.version->schema_digest;
  const StoredStamp stamp{storage.name, shaped ? storage.schema_digest : 0};
  if (shaped && kind.version->to_storage == nullptr) {
    return encode_stored(*op.object, stamp);  // what lies there has no apiVersion
  }
  krm::Json object = *op.object;
  kind.to_storage(object);
  return encode_stored(object, stamp);
}

using AdmissionStage = Expected<void> (AdmissionStep::*)(const WriteContext&, const ResourceDef&,
                                                         krm::Json&, const krm::Json*);

/// One stage of all steps, up to the first that refuses.
Expected<void> ask_steps(AdmissionStage stage, WriteOp& op, krm::Json& object,
                         const krm::Json* old) {
  const WriteContext& context = op.context();
  for (const auto& step : op.server.params().admission) {
    if (auto done = (step.get()->*stage)(context, *op.kind->def, object, old); !done) {
      return done;
    }
  }
  return {};
}

}  // namespace

bool WriteOp::is_abandoned() const {
  if (!request) {
    return false;
  }
  const RequestPtr client = request->lock();
  return client == nullptr || client->is_gone();
}

Duration WriteOp::time_left() const {
  constexpr Duration kForControllers = seconds(10);  // others wait for their turn there
  if (!request) {
    return kForControllers;
  }
  const RequestPtr client = request->lock();
  return client == nullptr || client->is_gone()
             ? Duration::zero()
             : std::max<Duration>(client->ends - server.params().loop.now(), Duration::zero());
}

std::string_view WriteOp::verb() const noexcept {
  constexpr std::string_view kVerbs[] = {"create", "update", "patch", "patch", "delete"};
  static_assert(std::size(kVerbs) == std::variant_size_v<Write>);
  return creating ? kVerbs[0] : kVerbs[write.index()];
}

krm::Json WriteOp::options_document(Operation operation) const {
  const auto* deletion = std::get_if<Delete>(&write);
  return deletion != nullptr ? delete_options_document(deletion->options)
                             : write_options_document(options, operation == Operation::kCreate);
}

Expected<krm::Json> WriteOp::changed(const krm::Json& current) const {
  return std::visit(
      [&current](const auto& what) -> Expected<krm::Json> {
        if constexpr (requires { what.change; }) {
          return what.change(current);
        } else {
          return fail(Errc::kInternal, "this write changes no object");
        }
      },
      write);
}

void WriteOp::finish(Expected<WriteResult> result) {
  const auto self = shared_from_this();
  turn.reset();
  charge_turn.reset();
  std::visit(
      [](auto& what) {
        if constexpr (requires { what.change; }) {
          what.change = nullptr;
        }
      },
      write);
  if (const auto call = std::exchange(done, nullptr)) {
    if (!result && is_store_fault(result.error())) {
      const std::string_view what = verb() == "patch" ? "update" : verb();
      result = fail(store_fault(result.error(), what, *kind->def));
    }
    call(std::move(result));
  }
}

const WriteContext& WriteOp::context() {
  hook_context.emplace(WriteContext{user, cluster, verb(), subresource, options.dry_run,
                                    server.reader(), warnings, false, generated_name});
  return *hook_context;
}

Error WriteOp::not_found() const {
  return krm::not_found(kind->def->group, kind->def->plural, name);
}

Expected<void> prepare_write(WriteOp& op, krm::Json& object, const krm::Json* old,
                             const krm::Json* before_change) {
  const ResourceDef& def = *op.kind->def;
  if (before_change == nullptr) {
    op.refusal = ask_steps(&AdmissionStep::receive, op, object, old);
  } else if (op.refusal) {
    op.refusal = ask_steps(&AdmissionStep::receive, op, object, before_change);
  }
  if (def.hooks.prepare) {
    def.hooks.prepare(op.context(), object, old);
  }
  if (op.view != nullptr && op.view->prepares(def)) {
    const krm::Json before = object;
    if (Expected<void> done = op.view->prepare(op.context(), def, object, old); !done) {
      return done;
    }
    if (op.refusal && !(before == object)) {
      op.refusal = ask_steps(&AdmissionStep::receive, op, object, &before);
    }
  }
  if (Expected<void> done = ask_steps(&AdmissionStep::prepare, op, object, old); !done) {
    return done;
  }
  set_cluster_annotation(op, object);
  return {};
}

bool has_stored_defaults(const WriteOp& op) {
  return !op.kind->def->builtin && !op.kind->is_custom() &&
         op.kind->def->storage_version().schema != nullptr;
}

void fill_stored_defaults(const WriteOp& op, krm::Json& object) {
  if (has_stored_defaults(op)) {
    krm::fill_defaults(*op.kind->def->storage_version().schema, object);
  }
}

bool look_again(const WriteOpPtr& op, std::function<void()> again) {
  if (op->is_current || !op->server.store().is_shared()) {
    return false;
  }
  op->is_current = true;
  op->server.synchronize([op, again = std::move(again)](const Expected<void>& done) {
    if (done) {
      again();
    } else {
      op->refuse(krm::unavailable("the store does not tell what is newest", 1));
    }
  });
  return true;
}

void run_write(const WriteOpPtr& op) {
  if (auto* create = std::get_if<Create>(&op->write)) {
    create_object(op, std::move(create->object));
  } else if (op->is<Delete>()) {
    delete_object(op);
  } else {
    update_object(op);
  }
}

void take_turn(const WriteOpPtr& op, std::function<void()> next) {
  const std::optional<std::string> key =
      object_key(op->kind->storage_name, op->cluster, op->ns, op->name);
  if (!key) {
    op->refuse(op->not_found());
    return;
  }
  op->key = *key;
  op->server.key_queue().acquire(
      op->key, [op, next = std::move(next)](std::shared_ptr<KeyQueue::Turn> turn) {
        op->turn = std::move(turn);
        if (op->is_abandoned()) {
          op->finish(fail(Errc::kCancelled));
          return;
        }
        next();
      });
}

void with_stored_form(const WriteOpPtr& op, std::function<void()> next) {
  const ServedKind& kind = *op->kind;
  if (kind.def->webhook == nullptr || kind.version == &kind.def->storage_version() ||
      op->written_as != nullptr) {
    next();
    return;
  }
  const ServedKindPtr storage = make_served_kind(kind.def, nullptr);
  op->server.conversions().convert_one(
      op->cluster, storage, *op->object,
      [op, storage, next = std::move(next)](Expected<krm::Json> converted) {
        if (!converted) {
          op->refuse(std::move(converted.error()));
          return;
        }
        *op->object = std::move(*converted);
        op->written_as = storage;
        op->converted = true;
        next();
      });
}

Expected<std::string> encode_write(WriteOp& op) {
  std::string stored = op.kind->is_custom() ? encode_custom(op) : encode_stored(*op.object);
  // What a store takes besides the object in a transaction is not the object's.
  const std::size_t room = op.server.store().limits().value_bytes - kBesidesObject;
  const std::size_t limit = std::min(op.server.params().max_object, room);
  if (stored.size() > limit) {
    return fail(Errc::kRequestEntityTooLarge,
                "Request entity too large: limit is " + std::to_string(limit));
  }
  return stored;
}

void commit_ops(const WriteOpPtr& op, std::vector<store::Op> ops,
                std::function<void(Expected<store::CommitResult>)> done) {
  std::shared_ptr<InnerSpan> span;
  if (const RequestPtr client = is_tracing() && op->request ? op->request->lock() : nullptr) {
    span = InnerSpan::begin(client->header("traceparent"), "store commit");
  }
  if (span == nullptr) {
    op->server.commit(std::move(ops), op->fence, std::move(done));
    return;
  }
  span->note("kintsugi.rows", static_cast<std::int64_t>(ops.size()));
  op->server.commit(std::move(ops), op->fence,
                    [span, done = std::move(done)](Expected<store::CommitResult> committed) {
                      span->end(!committed                                 ? "error"
                                : committed->excess || committed->conflict ? "conflict"
                                                                           : "");
                      done(std::move(committed));
                    });
}

void commit_write(const WriteOpPtr& op, store::Op change,
                  std::function<void(bool stored, store::Revision revision)> next) {
  change.keeps = keeps_of(*op);
  std::vector<store::Op> ops;
  ops.push_back(std::move(change));
  commit_ops(op, std::move(ops),
             [op, next = std::move(next)](Expected<store::CommitResult> result) {
               if (!result) {
                 op->refuse(std::move(result.error()));
                 return;
               }
               if (result->excess) {
                 op->refuse(over_limit(*op, *result->excess));
                 return;
               }
               next(!result->conflict, result->revision);
             });
}

WriteResult dry_run_result(WriteOp& op, int status, store::Revision revision) {
  WriteResult result;
  result.status = status;
  result.json = *op.object;
  if (op.kind->is_custom() && op.kind->def->webhook == nullptr) {
    op.kind->to_storage(result.json);
  }
  if (!op.kind->is_custom() || op.kind->def->webhook == nullptr) {
    op.kind->from_storage(result.json);
  }
  krm::Json& metadata = result.json["metadata"];
  if (revision == 0) {
    metadata.erase("resourceVersion");
  } else {
    metadata["resourceVersion"] = std::to_string(revision);
  }
  return result;
}

void set_cluster_annotation(const WriteOp& op, krm::Json& object) {
  if (!op.cluster.empty()) {
    object.make({"metadata", "annotations", krm::kClusterAnnotation}) = op.cluster;
  }
}

void drop_cluster_annotation(const WriteOp& op, krm::Json& object) {
  krm::Json* annotations = object.at({"metadata", "annotations"});
  if (op.cluster.empty() || annotations == nullptr) {
    return;
  }
  annotations->erase(krm::kClusterAnnotation);
  if (annotations->size() == 0) {
    object["metadata"].erase("annotations");
  }
}

krm::OwnershipContext ownership_context(const WriteOp& op, std::string_view now) {
  const ResourceVersion& version = *op.kind->version;
  krm::OwnershipContext context;
  context.schema = version.schema.get();
  context.manager = op.manager;
  context.api_version = op.kind->api_version;
  context.subresource = op.subresource;
  context.now = now;
  if (version.status) {
    context.part = op.subresource != "status"      ? krm::OwnedPart::kWithoutStatus
                   : op.kind->def->status_metadata ? krm::OwnedPart::kWithoutSpec
                                                   : krm::OwnedPart::kOnlyStatus;
  }
  const ResourceDef& def = *op.kind->def;
  context.schema_of = [&def](std::string_view api_version) -> std::optional<const krm::Schema*> {
    const std::size_t slash = api_version.find('/');
    const ResourceVersion* known =
        def.version(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
    return known == nullptr ? std::nullopt : std::optional<const krm::Schema*>(known->schema.get());
  };
  return context;
}

void track_fields(const WriteOp& op, const krm::Json* old, krm::Json& object) {
  if (op.is<Apply>()) {
    return;
  }
  // The reference keeps no time for those who scale.
  const std::string now = op.subresource == "scale" ? std::string() : rfc3339(unix_seconds());
  krm::track_update(ownership_context(op, now), old, object);
}

bool is_held(const ResourceDef& def, const krm::Json& object) {
  const auto has = [&object](std::initializer_list<std::string_view> path) {
    const krm::Json* list = object.at(path);
    return list != nullptr && list->size() > 0;
  };
  return has({"metadata", "finalizers"}) || (def.spec_finalizers && has({"spec", "finalizers"}));
}

}  // namespace kintsugi::apiserver::internal
