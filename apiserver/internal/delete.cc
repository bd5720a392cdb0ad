#include <utility>

#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/time.h"
#include "krm/finalizers.h"
#include "krm/managed_fields.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr int kMaxAttempts = 100;

void attempt(const WriteOpPtr& op);

const DeleteOptions& options_of(const WriteOp& op) { return std::get<Delete>(op.write).options; }

/// AM-008, AM-009; the object is named by its Kind here.
Error precondition_failed(const WriteOp& op, const std::string& reason) {
  return krm::conflict(op.kind->def->group, op.kind->def->kind, op.name, reason);
}

Expected<void> check_preconditions(const WriteOp& op) {
  const DeleteOptions& options = options_of(op);
  const std::string_view uid = op.old->text({"metadata", "uid"});
  if (!options.precondition_uid.empty() && options.precondition_uid != uid) {
    if (op.kind->def->spec_finalizers) {  // namespaces have words of their own
      return fail(
          krm::conflict(op.kind->def->group, op.kind->def->plural, op.name,
                        "Precondition failed: UID in precondition: " + options.precondition_uid +
                            ", UID in object meta: " + std::string(uid)));
    }
    return fail(
        precondition_failed(op, "the UID in the precondition (" + options.precondition_uid +
                                    ") does not match the UID in record (" + std::string(uid) +
                                    "). The object might have been deleted and then recreated"));
  }
  const std::string version = std::to_string(op.entry.modified);
  if (!options.precondition_version.empty() && options.precondition_version != version) {
    return fail(precondition_failed(op, "the ResourceVersion in the precondition (" +
                                            options.precondition_version +
                                            ") does not match the ResourceVersion in record (" +
                                            version + "). The object might have been modified"));
  }
  return {};
}

/// 6.5 rule 2.
void set_propagation(krm::Json& metadata, Propagation propagation) {
  if (propagation == Propagation::kDefault) {
    return;
  }
  krm::Json kept = krm::Json::array();
  if (const krm::Json* finalizers = metadata.find("finalizers"); finalizers != nullptr) {
    for (const krm::Json& item : finalizers->items()) {
      if (item.as_string() != krm::kOrphanFinalizer &&
          item.as_string() != krm::kForegroundFinalizer) {
        kept.push_back(item);
      }
    }
  }
  if (propagation == Propagation::kOrphan) {
    kept.push_back(krm::kOrphanFinalizer);
  } else if (propagation == Propagation::kForeground) {
    kept.push_back(krm::kForegroundFinalizer);
  }
  if (kept.size() == 0) {
    metadata.erase("finalizers");
  } else {
    metadata["finalizers"] = std::move(kept);
  }
}

/// The object as it would be marked.
void mark(WriteOp& op) {
  op.object = std::make_unique<krm::Json>(*op.old);
  krm::Json& metadata = (*op.object)["metadata"];
  set_propagation(metadata, options_of(op).propagation);
  if (metadata.find("deletionTimestamp") == nullptr) {
    metadata["deletionTimestamp"] = rfc3339(unix_seconds());
    metadata["deletionGracePeriodSeconds"] = 0;
    const krm::Json* generation = metadata.find("generation");
    if (generation != nullptr && generation->as_integer() > 0) {
      metadata["generation"] = krm::Json(generation->as_integer() + 1);
    }
  }
  if (const auto& prepare = op.kind->def->hooks.prepare) {
    prepare(op.context(), *op.object, op.old.get());
  }
}

WriteResult success(const WriteOp& op) {
  const ResourceDef& def = *op.kind->def;
  krm::Json details = krm::Json::object(
      {{"name", op.name}, {"kind", def.plural}, {"uid", op.old->text({"metadata", "uid"})}});
  if (!def.group.empty()) {
    details["group"] = def.group;
  }
  WriteResult result;
  result.is_status = true;
  result.json = krm::Json::object({{"kind", "Status"},
                                   {"apiVersion", "v1"},
                                   {"metadata", krm::Json::object()},
                                   {"status", "Success"},
                                   {"details", std::move(details)}});
  return result;
}

WriteResult object_result(std::string stored, store::Revision revision) {
  WriteResult result;
  result.stored = std::move(stored);
  result.revision = revision;
  return result;
}

void conflicted(const WriteOpPtr& op) {
  if (++op->attempts >= kMaxAttempts) {
    op->finish(fail(krm::modified(op->kind->def->group, op->kind->def->plural, op->name)));
    return;
  }
  attempt(op);
}

void remove(const WriteOpPtr& op) {
  const auto finished = [op] {
    if (op->kind->def->delete_answers_object) {
      op->finish(object_result(std::string(op->entry.value.view()), op->entry.modified));
    } else {
      op->finish(success(*op));
    }
  };
  if (op->options.dry_run) {
    finished();
    return;
  }
  store::Op change{store::EventType::kDelete, op->key, "", op->entry.modified};
  commit_write(op, std::move(change), [op, finished](bool done, store::Revision) {
    if (done) {
      finished();
    } else {
      conflicted(op);
    }
  });
}

void keep_marked(const WriteOpPtr& op) {
  if (!krm::differs_beyond_times(*op->old, *op->object)) {
    op->finish(object_result(std::string(op->entry.value.view()), op->entry.modified));
    return;
  }
  if (op->options.dry_run) {
    op->finish(dry_run_result(*op, 200, op->entry.modified));
    return;
  }
  Expected<std::string> stored = encode_write(*op);
  if (!stored) {
    op->refuse(std::move(stored.error()));
    return;
  }
  store::Op change{store::EventType::kPut, op->key, *stored, op->entry.modified};
  commit_write(op, std::move(change),
               [op, stored = std::move(*stored)](bool done, store::Revision revision) {
                 if (done) {
                   op->finish(object_result(stored, revision));
                 } else {
                   conflicted(op);
                 }
               });
}

void attempt(const WriteOpPtr& op) {
  Expected<store::Entry> entry = op->server.store().get(op->key);
  if (entry && !is_visible(op->view, op->cluster, *op->kind->def, op->key, entry->value.view())) {
    entry = fail(Errc::kNotFound);
  }
  if (!entry) {
    if (look_again(op, [op] { attempt(op); })) {
      return;
    }
    op->finish(
        fail(entry.error().code() == Errc::kNotFound ? op->not_found() : std::move(entry.error())));
    return;
  }
  op->entry = std::move(*entry);
  // As it lies there: a webhook that is down does not stop a deletion (AM-338).
  const ResourceDef& def = *op->kind->def;
  const Expected<StoredView> stored = StoredView::parse(op->entry.value.view());
  op->written_as = make_served_kind(
      op->kind->def, stored ? written_version(def, stored->stamp) : &def.storage_version());
  Expected<krm::Json> old = op->written_as->decode(op->entry.value.view(), op->entry.modified);
  if (!old) {
    op->refuse(std::move(old.error()));
    return;
  }
  op->old = std::make_unique<krm::Json>(std::move(*old));
  if (Expected<void> done = check_preconditions(*op); !done) {
    if (!look_again(op, [op] { attempt(op); })) {
      op->refuse(std::move(done.error()));
    }
    return;
  }
  const auto delete_it = [op] {
    mark(*op);
    if (is_held(*op->kind->def, *op->object)) {
      keep_marked(op);
    } else {
      remove(op);
    }
  };
  admit(op, nullptr, op->old.get(), [op, delete_it] {
    mutate(op, nullptr, op->old.get(),
           [op, delete_it] { approve(op, nullptr, op->old.get(), delete_it); });
  });
}

}  // namespace

void delete_object(const WriteOpPtr& op) {
  op->options.dry_run = options_of(*op).dry_run;
  take_turn(op, [op] { attempt(op); });
}

}  // namespace kintsugi::apiserver::internal
