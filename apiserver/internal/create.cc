#include <algorithm>
#include <iterator>
#include <utility>

#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_limits.h"
#include "apiserver/internal/write_op.h"
#include "apiserver/keys.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kMaxGenerateBase = 58;
constexpr std::size_t kSuffixLength = 5;
constexpr int kNameAttempts = 8;
constexpr int kCommitAttempts = 100;

Expected<void> place_in_namespace(const WriteOp& op, krm::Json& metadata) {
  if (!op.kind->def->namespaced) {
    metadata.erase("namespace");
    return {};
  }
  const std::string_view given = metadata.text({"namespace"});
  if (!given.empty() && given != op.ns) {
    return fail(
        krm::bad_request("the namespace of the provided object does not match the "
                         "namespace sent on the request"));
  }
  metadata["namespace"] = op.ns;
  return {};
}

void generate_name(krm::Json& metadata) {
  const std::string_view base = metadata.text({"generateName"}).substr(0, kMaxGenerateBase);
  metadata["name"] = std::string(base) + random_suffix(kSuffixLength);
}

/// Without both names it stays without one, which is a cause among others when it is validated.
void name_object(WriteOp& op, krm::Json& metadata) {
  if (metadata.text({"name"}).empty() && !metadata.text({"generateName"}).empty()) {
    generate_name(metadata);
    op.generated_name = true;
  }
  op.name = metadata.text({"name"});
}

void set_system_fields(const WriteOp& op, krm::Json& metadata) {
  const auto* create = std::get_if<Create>(&op.write);
  const bool keeps = create != nullptr && create->keep_identity;
  if (!keeps || metadata.text({"uid"}).empty()) {
    metadata["uid"] = random_uuid();
  }
  if (!keeps || metadata.text({"creationTimestamp"}).empty()) {
    metadata["creationTimestamp"] = rfc3339(unix_seconds());
  }
  if (op.kind->def->generation) {
    metadata["generation"] = 1;
  }
}

Error exists_error(WriteOp& op) {
  const ResourceDef& def = *op.kind->def;
  Error error = krm::already_exists(def.group, def.plural, op.name);
  if (op.generated_name) {
    error.edit().message += ", the server was not able to generate a unique name for the object";
    error.edit().retry_after_seconds = 1;
    return error;
  }
  const Expected<store::Entry> present = op.server.store().get(op.key);
  if (present) {
    const Expected<krm::Json> object = op.kind->decode(present->value.view(), present->modified);
    if (object && object->at({"metadata", "deletionTimestamp"}) != nullptr) {
      error.edit().message.insert(0, "object is being deleted: ");
    }
  }
  return error;
}

void store_new(const WriteOpPtr& op);

/// The name is taken: another one if it is ours to choose.
void collided(const WriteOpPtr& op) {
  op->charge_turn.reset();
  if (op->generated_name && ++op->attempts < kNameAttempts) {
    krm::Json& metadata = (*op->object)["metadata"];
    generate_name(metadata);
    op->name = metadata.text({"name"});
    store_new(op);
    return;
  }
  if (op->is<Apply>()) {
    apply_to_taken(op);
    return;
  }
  op->refuse(exists_error(*op));
}

/// What the object changes besides itself (AdmissionStep::charge).
Expected<std::vector<store::Op>> charges_of(const WriteOp& op) {
  std::vector<store::Op> out;
  for (const auto& step : op.server.params().admission) {
    Expected<std::vector<store::Op>> charges = step->charge(op);
    if (!charges) {
      return charges;
    }
    std::move(charges->begin(), charges->end(), std::back_inserter(out));
  }
  return out;
}

/// Where creates of a namespace wait for each other, as each has to see what the one before has
/// changed. No object has this key.
std::string charge_queue(const WriteOp& op) {
  return collection_prefix("charges", op.cluster, op.ns);
}

/// The object that others changed as often as this operation read it. @param key  of it
Error contended(std::string_view key) {
  const std::optional<KeyParts> parts = parse_key(key);
  const StoredResource resource = parts ? parse_stored_resource(parts->resource) : StoredResource();
  return krm::modified(resource.group, resource.plural, "");
}

void commit_new(const WriteOpPtr& op);

/// What the create rests on or charges changed in the meantime: looks again. @param key of that
void commit_again(const WriteOpPtr& op, std::string_view key) {
  if (++op->commit_attempts >= kCommitAttempts) {
    op->refuse(contended(key));
  } else if (Expected<void> allowed = check_new(*op); !allowed) {
    op->refuse(std::move(allowed.error()));
  } else {
    commit_new(op);
  }
}

/// The object and what it charges, in one transaction, if what it rests on is unchanged.
void commit_new(const WriteOpPtr& op) {
  Expected<std::vector<store::Op>> charges = charges_of(*op);
  if (!charges) {
    op->refuse(std::move(charges.error()));
    return;
  }
  if (!charges->empty() && op->charge_turn == nullptr) {
    op->server.key_queue().acquire(charge_queue(*op), [op](std::shared_ptr<KeyQueue::Turn> turn) {
      op->charge_turn = std::move(turn);
      commit_new(op);
    });
    return;
  }
  Expected<std::string> stored = encode_write(*op);
  if (!stored) {
    op->refuse(std::move(stored.error()));
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back({store::EventType::kPut, op->key, *stored, store::Revision{0}, keeps_of(*op)});
  ops.insert(ops.end(), op->rests_on.begin(), op->rests_on.end());
  std::move(charges->begin(), charges->end(), std::back_inserter(ops));
  std::vector<std::string> keys;
  for (const store::Op& each : ops) {
    keys.push_back(each.key);
  }
  commit_ops(op, std::move(ops),
             [op, stored = std::move(*stored),
              keys = std::move(keys)](Expected<store::CommitResult> committed) mutable {
               if (!committed) {
                 op->refuse(std::move(committed.error()));
               } else if (committed->excess) {
                 op->refuse(over_limit(*op, *committed->excess));
               } else if (!committed->conflict) {
                 WriteResult result;
                 result.status = 201;
                 result.stored = std::move(stored);
                 result.revision = committed->revision;
                 op->finish(std::move(result));
               } else if (committed->failed_op == 0) {
                 collided(op);
               } else {
                 commit_again(op, keys[committed->failed_op]);
               }
             });
}

void store_new(const WriteOpPtr& op) {
  const std::optional<std::string> key =
      object_key(op->kind->storage_name, op->cluster, op->ns, op->name);
  if (!key) {
    op->finish(fail(krm::bad_request("the name of the object cannot be stored")));
    return;
  }
  op->key = *key;
  if (op->options.dry_run) {
    if (Expected<std::vector<store::Op>> room = charges_of(*op); !room) {
      op->refuse(std::move(room.error()));
    } else if (op->server.store().get(op->key)) {
      collided(op);
    } else if (Expected<std::string> encoded = encode_write(*op); !encoded) {
      op->refuse(std::move(encoded.error()));
    } else if (Expected<void> within = check_limits(*op, *encoded); !within) {
      op->refuse(std::move(within.error()));
    } else {
      op->finish(dry_run_result(*op, 201, 0));
    }
    return;
  }
  with_stored_form(op, [op] { commit_new(op); });
}

Expected<void> prepare_new(WriteOp& op, krm::Json& object) {
  krm::Json& metadata = object["metadata"];
  if (Expected<void> done = place_in_namespace(op, metadata); !done) {
    return done;
  }
  const std::string_view version = metadata.text({"resourceVersion"});
  if (!version.empty() && version != "0" && !op.options.dry_run) {
    return fail(krm::unclassified("resourceVersion should not be set on objects to be created"));
  }
  name_object(op, metadata);
  if (op.kind->version->status) {
    object.erase("status");
  }
  for (const char* member :
       {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) {
    object["metadata"].erase(member);
  }
  drop_cluster_annotation(op, object);
  track_fields(op, nullptr, object);
  set_system_fields(op, object["metadata"]);
  set_cluster_annotation(op, object);
  if (!op.kind->is_custom()) {
    op.kind->to_storage(object);
  } else if (const krm::Schema* schema = op.kind->version->schema.get();
             op.kind->version->status && schema != nullptr) {
    krm::apply_defaults(*schema, object);  // a status that is a default is there from the start
  }
  op.object = std::make_unique<krm::Json>(std::move(object));
  return prepare_write(op, *op.object, nullptr);
}

void allow_new(const WriteOpPtr& op) {
  if (Expected<void> allowed = check_new(*op); allowed) {
    approve(op, op->object.get(), nullptr, [op] { store_new(op); });
  } else if (!look_again(op, [op] { allow_new(op); })) {
    op->refuse(std::move(allowed.error()));
  }
}

}  // namespace

Expected<void> accept_new(WriteOp& op, krm::Json changed) {
  const std::unique_ptr<krm::Json> before = std::move(op.object);
  krm::Json& metadata = changed["metadata"];
  if (Expected<void> done = place_in_namespace(op, metadata); !done) {
    return done;
  }
  if (metadata.text({"name"}) != op.name) {
    op.generated_name = false;
    name_object(op, metadata);
  }
  for (const char* member : {"uid", "creationTimestamp", "generation", "resourceVersion",
                             "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) {
    if (const krm::Json* kept = before->at({"metadata", member}); kept != nullptr) {
      metadata[member] = *kept;
    } else {
      metadata.erase(member);
    }
  }
  keep_managed_fields(op, *before, changed);
  if (op.kind->version->status) {
    if (const krm::Json* status = before->find("status"); status != nullptr) {
      changed["status"] = *status;
    } else {
      changed.erase("status");
    }
  }
  set_cluster_annotation(op, changed);
  op.object = std::make_unique<krm::Json>(std::move(changed));
  return prepare_write(op, *op.object, nullptr, before.get());
}

void create_object(const WriteOpPtr& op, krm::Json object) {
  op->old = nullptr;
  if (Expected<void> done = prepare_new(*op, object); !done) {
    op->refuse(std::move(done.error()));
    return;
  }
  if (op->kind->def->terminating) {
    op->refuse(kind_terminates(*op));
    return;
  }
  const auto validate = [op] { validate_write(op, [op] { allow_new(op); }); };
  admit(op, op->object.get(), nullptr,
        [op, validate] { mutate(op, op->object.get(), nullptr, validate); });
}

}  // namespace kintsugi::apiserver::internal
