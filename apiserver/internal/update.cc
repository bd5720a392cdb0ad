#include <algorithm>
#include <utility>

#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_limits.h"
#include "apiserver/internal/write_op.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "krm/go_text.h"
#include "krm/managed_fields.h"
#include "krm/status.h"
#include "store/outdated.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr int kMaxAttempts = 100;

void attempt(const WriteOpPtr& op);

Error modified(const WriteOp& op) {
  return krm::modified(op.kind->def->group, op.kind->def->plural, op.name);
}

/// Name and namespace must be those of the path (AM-143, AM-144).
Expected<void> check_identity(const WriteOp& op, const krm::Json& metadata) {
  const std::string_view name = metadata.text({"name"});
  if (name.empty()) {
    return fail(krm::bad_request("the name of the object (" + op.name +
                                 " based on URL) was undeterminable: name must be provided"));
  }
  if (name != op.name) {
    return fail(krm::bad_request("the name of the object (" + std::string(name) +
                                 ") does not match the name on the URL (" + op.name + ")"));
  }
  const std::string_view ns = metadata.text({"namespace"});
  if (op.kind->def->namespaced && !ns.empty() && ns != op.ns) {
    return fail(
        krm::bad_request("the namespace of the provided object does not match the "
                         "namespace sent on the request"));
  }
  return {};
}

bool is_unconditional(const WriteOp& op) {
  const auto* update = std::get_if<Update>(&op.write);
  return update == nullptr || update->unconditional;
}

bool may_create(const WriteOp& op) {
  const auto* update = std::get_if<Update>(&op.write);
  return op.subresource.empty() && (op.is<Apply>() || (update != nullptr && update->may_create));
}

/// AM-168 to AM-171.
Expected<void> check_preconditions(WriteOp& op, const krm::Json& metadata) {
  const ResourceDef& def = *op.kind->def;
  const std::string_view version = metadata.text({"resourceVersion"});
  op.has_version = !version.empty() && version != "0";
  if (op.has_version) {
    const Expected<store::Revision> revision = parse_resource_version(version);
    if (!revision) {
      const std::string_view text = revision.error().message();
      return fail(krm::unclassified(
          std::string(text.substr(std::min(text.find("strconv."), text.size())))));
    }
    if (*revision != op.entry.modified) {
      op.wants_newer = *revision > op.entry.modified;
      return fail(modified(op));
    }
  } else if (!is_unconditional(op)) {
    return fail(krm::invalid(def.group, def.plural, op.name,
                             {krm::field_invalid("metadata.resourceVersion", krm::Json(0),
                                                 "must be specified for an update")}));
  }
  return {};
}

tl::unexpected<Error> immutable(const WriteOp& op, const char* field, const krm::Json& value) {
  return fail(krm::invalid(
      op.kind->def->group, op.kind->def->kind, op.name,
      {krm::field_invalid(std::string("metadata.") + field, value, "field is immutable")}));
}

/// Keeps what only the server writes (AM-171, AM-174, AM-175).
Expected<void> keep_system_fields(WriteOp& op, const krm::Json& old, krm::Json& metadata) {
  const krm::Json* uid = metadata.find("uid");
  if (uid != nullptr && !uid->as_string().empty() && uid->as_string() != old.text({"uid"})) {
    if (!op.is<Update>()) {
      return immutable(op, "uid", *uid);
    }
    return fail(
        krm::conflict(op.kind->def->group, op.kind->def->plural, op.name,
                      "Precondition failed: UID in precondition: " + std::string(uid->as_string()) +
                          ", UID in object meta: " + std::string(old.text({"uid"}))));
  }
  const krm::Json* deletion = metadata.find("deletionTimestamp");
  if (deletion != nullptr && !deletion->is_null() && old.find("deletionTimestamp") == nullptr) {
    return immutable(op, "deletionTimestamp", *deletion);
  }
  const krm::Json* grace = metadata.find("deletionGracePeriodSeconds");
  if (grace != nullptr && !grace->is_null()) {
    const krm::Json* before = old.find("deletionGracePeriodSeconds");
    if (before == nullptr || !(*before == *grace)) {
      return immutable(op, "deletionGracePeriodSeconds", *grace);
    }
  }
  for (const char* member :
       {"uid", "creationTimestamp", "deletionTimestamp", "name", "namespace",
        "deletionGracePeriodSeconds", "generation", "selfLink", "resourceVersion"}) {
    if (const krm::Json* before = old.find(member); before != nullptr) {
      metadata[member] = *before;
    } else {
      metadata.erase(member);
    }
  }
  return {};
}

/// A copy with another status; null: with none.
krm::Json with_status(const krm::Json& object, krm::Json* status) {
  krm::Json out;
  krm::Json::Object& members = out.edit_members();
  members.reserve(object.size() + 1);
  for (const krm::JsonMember& member : object.members()) {
    if (member.key != "status") {
      members.push_back(member);
    }
  }
  if (status != nullptr) {
    out["status"] = std::move(*status);
  }
  return out;
}

/// The part of the object that this endpoint may change (AM-177, AM-178).
krm::Json merge_parts(const WriteOp& op, const krm::Json& old, krm::Json changed) {
  if (!op.kind->version->status) {
    return changed;
  }
  if (op.subresource == "status") {
    krm::Json merged = with_status(old, changed.find("status"));
    if (op.kind->def->status_metadata) {
      merged["metadata"] = std::move(changed["metadata"]);
    } else if (op.is<Apply>()) {
      krm::Json* metadata = changed.find("metadata");
      krm::Json* entries = metadata == nullptr ? nullptr : metadata->find("managedFields");
      if (entries != nullptr) {
        merged["metadata"]["managedFields"] = std::move(*entries);
      } else {
        merged["metadata"].erase("managedFields");
      }
    }
    return merged;
  }
  if (const krm::Json* status = old.find("status"); status != nullptr) {
    changed["status"] = *status;
  } else {
    changed.erase("status");
  }
  return changed;
}

/// AM-179: anything outside metadata (and status, where it is a subresource).
bool spec_differs(const krm::Json& a, const krm::Json& b, bool without_status) {
  const auto counts = [without_status](const krm::JsonMember& member) {
    return member.key != "metadata" && !(without_status && member.key == "status");
  };
  const auto next = [&counts](auto& at, auto end) {
    while (at != end && !counts(*at)) {
      ++at;
    }
    return at != end;
  };
  auto left = a.members().begin();
  auto right = b.members().begin();
  while (true) {
    const bool has_left = next(left, a.members().end());
    const bool has_right = next(right, b.members().end());
    if (!has_left || !has_right) {
      return has_left != has_right;
    }
    if (!(*left == *right)) {
      return true;
    }
    ++left;
    ++right;
  }
}

/// AM-179, for what will be stored.
bool changes_spec(const WriteOp& op) {
  if (!op.kind->def->generation || op.subresource == "status") {
    return false;
  }
  const bool status = op.kind->version->status;
  if (!has_stored_defaults(op)) {
    return spec_differs(*op.old, *op.object, status);
  }
  krm::Json stored = *op.object;
  fill_stored_defaults(op, stored);
  return spec_differs(*op.old, stored, status);
}

/// AM-184.
Expected<void> check_new_finalizers(const WriteOp& op) {
  if (op.old->at({"metadata", "deletionTimestamp"}) == nullptr) {
    return {};
  }
  const krm::Json* before = op.old->at({"metadata", "finalizers"});
  const krm::Json* after = op.object->at({"metadata", "finalizers"});
  std::vector<std::string> added;
  if (after != nullptr) {
    for (const krm::Json& item : after->items()) {
      const bool known =
          before != nullptr &&
          std::find(before->items().begin(), before->items().end(), item) != before->items().end();
      if (!known) {
        added.emplace_back(item.as_string());
      }
    }
  }
  if (added.empty()) {
    return {};
  }
  const Cause cause = krm::field_forbidden(
      "metadata.finalizers",
      "no new finalizers can be added if the object is being deleted, found new finalizers " +
          krm::go_string_slice(added));
  // Twice, as Kubernetes has it: the general rules and those of the kind both check metadata.
  return fail(krm::invalid(op.kind->def->group, op.kind->def->kind, op.name, {cause, cause}));
}

/// What is done to the new object when it is whole. @param before  see prepare_write
Expected<void> finish_update(WriteOp& op, const krm::Json* before) {
  if (Expected<void> done = prepare_write(op, *op.object, op.old.get(), before); !done) {
    return done;
  }
  if (changes_spec(op)) {
    const krm::Json* generation = op.old->at({"metadata", "generation"});
    op.object->make({"metadata", "generation"}) =
        krm::Json((generation == nullptr ? 0 : generation->as_integer()) + 1);
  }
  return check_new_finalizers(op);
}

/// Old and new object in storage version, ready for admission.
Expected<void> prepare_update(WriteOp& op, Expected<krm::Json> current) {
  if (!current) {
    return fail(std::move(current.error()));
  }
  Expected<krm::Json> changed = op.changed(*current);
  if (!changed) {
    return fail(std::move(changed.error()));
  }
  krm::Json& metadata = (*changed)["metadata"];
  if (Expected<void> done = check_identity(op, metadata); !done) {
    return done;
  }
  if (Expected<void> done = check_preconditions(op, metadata); !done) {
    return done;
  }
  if (Expected<void> done = keep_system_fields(op, *current->find("metadata"), metadata); !done) {
    return done;
  }
  krm::Json object = merge_parts(op, *current, std::move(*changed));
  drop_cluster_annotation(op, object);
  drop_cluster_annotation(op, *current);
  track_fields(op, &*current, object);
  set_cluster_annotation(op, object);
  set_cluster_annotation(op, *current);
  if (!op.kind->is_custom()) {
    op.kind->to_storage(object);
    op.kind->to_storage(*current);
  }
  op.old = std::make_unique<krm::Json>(std::move(*current));
  op.object = std::make_unique<krm::Json>(std::move(object));
  return finish_update(op, nullptr);
}

/// A custom object that lies in another version than it would now, or with what the schema now
/// drops or adds, or any that is encrypted otherwise than it would be: a write that changes nothing
/// else brings it up to date.
bool is_stale(const WriteOp& op) {
  if (store::is_stored_outdated(op.server.store(), op.key, op.entry.modified)) {
    return true;
  }
  const std::string_view value = op.entry.value.view();
  const Expected<StoredView> stored = StoredView::parse(value);
  if (!op.kind->is_custom() || !stored) {
    return false;
  }
  const ResourceVersion& storage = op.kind->def->storage_version();
  if (!stored->stamp.version.empty() && stored->stamp.version != storage.name) {
    return true;
  }
  if (op.kind->version != &storage || op.kind->is_stored_form(*stored)) {
    return false;
  }
  const Expected<krm::Json> raw =
      decode_stored(value, op.kind->api_version, op.kind->def->kind, op.entry.modified);
  return raw && !(*raw == *op.old);
}

WriteResult present(const WriteOp& op) {
  WriteResult result;
  result.stored = std::string(op.entry.value.view());
  result.revision = op.entry.modified;
  return result;
}

/// Another writer was faster.
void conflicted(const WriteOpPtr& op) {
  if ((op->has_version && op->is<Update>()) || ++op->attempts >= kMaxAttempts) {
    op->refuse(modified(*op));
    return;
  }
  attempt(op);
}

void dry_run(const WriteOpPtr& op) {
  if (op->kind->def->webhook == nullptr) {  // its stored form is at hand
    if (Expected<std::string> encoded = encode_write(*op); !encoded) {
      op->refuse(std::move(encoded.error()));
      return;
    } else if (Expected<void> within = check_limits(*op, *encoded); !within) {
      op->refuse(std::move(within.error()));
      return;
    }
  }
  op->finish(dry_run_result(*op, 200, op->entry.modified));
}

void store_changed(const WriteOpPtr& op) {
  const bool deleting = op->old->at({"metadata", "deletionTimestamp"}) != nullptr;
  const bool gone = deleting && !is_held(*op->kind->def, *op->object);
  if (!gone && !krm::differs_beyond_times(*op->old, *op->object) && !is_stale(*op)) {
    op->finish(present(*op));
    return;
  }
  if (op->options.dry_run) {
    dry_run(op);
    return;
  }
  with_stored_form(op, [op, gone] {
    Expected<std::string> stored = encode_write(*op);
    if (!stored) {
      op->refuse(std::move(stored.error()));
      return;
    }
    // Watchers see the last state that was there, with the finalizer that goes.
    store::Op change{gone ? store::EventType::kDelete : store::EventType::kPut, op->key,
                     gone ? std::string(op->entry.value.view()) : *stored, op->entry.modified};
    commit_write(op, std::move(change),
                 [op, gone, stored = std::move(*stored)](bool done, store::Revision revision) {
                   if (!done) {
                     conflicted(op);
                     return;
                   }
                   WriteResult result;
                   result.stored = stored;
                   result.revision = gone ? op->entry.modified : revision;
                   op->finish(std::move(result));
                 });
  });
}

/// PUT or apply of what is not there (AM-172, AM-217).
void create_instead(const WriteOpPtr& op) {
  Expected<krm::Json> object = op->changed(krm::Json());
  if (!object) {
    op->refuse(std::move(object.error()));
    return;
  }
  krm::Json& metadata = (*object)["metadata"];
  if (Expected<void> same = check_identity(*op, metadata); !same) {
    op->refuse(std::move(same.error()));
    return;
  }
  if (const std::string_view uid = metadata.text({"uid"}); !uid.empty() && !op->is<Apply>()) {
    op->finish(fail(krm::conflict(op->kind->def->group, op->kind->def->plural, op->name,
                                  "Precondition failed: UID in precondition: " + std::string(uid) +
                                      ", UID in object meta: ")));
    return;
  }
  metadata.erase("resourceVersion");
  const auto create = [op, made = std::make_shared<krm::Json>(std::move(*object))] {
    op->creating = true;
    create_object(op, std::move(*made));
  };
  const auto* apply = std::get_if<Apply>(&op->write);
  const AskCreate& ask =
      apply != nullptr ? apply->ask_create : std::get<Update>(op->write).ask_create;
  if (ask) {
    ask(create);
  } else {
    create();
  }
}

/// @param current what is stored, in the version of the request.
void change_current(const WriteOpPtr& op, Expected<krm::Json> current) {
  if (Expected<void> done = prepare_update(*op, std::move(current)); !done) {
    if (!op->wants_newer || !look_again(op, [op] { attempt(op); })) {
      op->refuse(std::move(done.error()));
    }
    return;
  }
  const auto validate = [op] {
    validate_write(
        op, [op] { approve(op, op->object.get(), op->old.get(), [op] { store_changed(op); }); });
  };
  admit(op, op->object.get(), op->old.get(),
        [op, validate] { mutate(op, op->object.get(), op->old.get(), validate); });
}

void attempt(const WriteOpPtr& op) {
  Expected<store::Entry> entry = op->server.store().get(op->key);
  if (entry && !is_visible(op->view, op->cluster, *op->kind->def, op->key, entry->value.view())) {
    op->refuse(op->not_found());
    return;
  }
  if (!entry) {
    if (entry.error().code() != Errc::kNotFound) {
      op->refuse(std::move(entry.error()));
    } else if (look_again(op, [op] { attempt(op); })) {
      return;
    } else if (may_create(*op)) {
      create_instead(op);
    } else {
      op->refuse(op->not_found());
    }
    return;
  }
  op->entry = std::move(*entry);
  op->written_as = nullptr;
  op->converted = false;
  Expected<krm::Json> current = op->kind->decode(op->entry.value.view(), op->entry.modified);
  if (current && op->kind->needs_webhook(op->entry.value.view())) {
    op->server.conversions().convert_one(
        op->cluster, op->kind, std::move(*current),
        [op](Expected<krm::Json> converted) { change_current(op, std::move(converted)); });
    return;
  }
  change_current(op, std::move(current));
}

}  // namespace

Expected<void> accept_update(WriteOp& op, krm::Json changed) {
  const std::unique_ptr<krm::Json> before = std::move(op.object);
  krm::Json& metadata = changed["metadata"];
  if (Expected<void> done = check_identity(op, metadata); !done) {
    return done;
  }
  if (Expected<void> done = keep_system_fields(op, *op.old->find("metadata"), metadata); !done) {
    return done;
  }
  keep_managed_fields(op, *before, changed);
  krm::Json object = merge_parts(op, *before, std::move(changed));
  set_cluster_annotation(op, object);
  op.object = std::make_unique<krm::Json>(std::move(object));
  return finish_update(op, before.get());
}

void apply_to_taken(const WriteOpPtr& op) {
  op->creating = false;
  conflicted(op);
}

void update_object(const WriteOpPtr& op) {
  take_turn(op, [op] { attempt(op); });
}

}  // namespace kintsugi::apiserver::internal
