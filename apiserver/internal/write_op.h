#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/internal/key_queue.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/served_kind.h"
#include "apiserver/view.h"
#include "auth/user.h"
#include "base/error.h"
#include "krm/json.h"
#include "krm/managed_fields.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

class Server;
struct Request;

/// What came of a write: an object as it is stored, or a JSON document that is not.
struct WriteResult {
  int status = 200;
  std::string stored;            ///< stored bytes; empty: `json` is the answer
  store::Revision revision = 0;  ///< of `stored`
  krm::Json json;                ///< dry run: the object in the request's version; else a Status
  bool is_status = false;        ///< `json` is a Status
};

/// One write on its way, from the wire or from a controller. Callbacks share it; its members are
/// what WriteContext refers to, so it outlives hooks that answer later. Threads: its loop.
struct WriteOp : std::enable_shared_from_this<WriteOp> {
  explicit WriteOp(Server& owner) : server(owner) {}

  Server& server;
  ServedKindPtr kind;
  std::shared_ptr<View> view;  ///< null: the cluster as it is
  std::string cluster, ns, name, subresource;
  std::string verb;  ///< create, update, patch, delete
  auth::UserInfo user;
  std::string manager;
  WriteOptions options;
  bool skip_admission = false;
  bool keep_identity = false;  ///< create: uid and creation time are those of the object
  bool unconditional = false;  ///< update without resourceVersion is fine
  bool upsert = false;         ///< update of an absent object creates it
  bool in_collection = false;  ///< delete: one of a collection, as policies see it without a name
  bool applies = false;        ///< server-side apply: `change` keeps managedFields itself
  std::optional<DeleteOptions> delete_options;  ///< of a delete
  std::vector<std::string> warnings;
  /// What admission policies have to say besides yes and no, in the attempt that runs.
  std::vector<std::string> policy_warnings;
  std::vector<std::pair<std::string, std::string>> audit_annotations;
  /// Asked before an update becomes a create; unset: allowed.
  std::function<void(std::function<void()> allowed)> authorize_create;
  std::function<void(Expected<WriteResult>)> done;

  /// Makes the new object (request version) from the present one, null when there is none; may run
  /// several times.
  std::function<Expected<krm::Json>(const krm::Json& current)> change;
  std::optional<std::weak_ptr<Request>> request;  ///< unset: a controller's
  /// The client left while the write waited for its turn: it does not begin (SE-076).
  [[nodiscard]] bool is_abandoned() const;
  std::shared_ptr<KeyQueue::Turn> turn;
  std::shared_ptr<KeyQueue::Turn> quota_turn;  ///< create in a namespace with quotas
  std::optional<WriteContext> hook_context;
  int attempts = 0;
  int quota_attempts = 0;

  // The attempt that runs.
  std::string key;
  store::Entry entry;                 ///< what is stored now
  std::unique_ptr<krm::Json> object;  ///< storage version, about to be stored
  std::unique_ptr<krm::Json> old;     ///< storage version, stored now; null on create
  /// Custom kinds: the version in which `object` and `old` are; null: that of `kind`.
  ServedKindPtr written_as;
  Expected<void> refusal;  ///< what receive_any has to say, told in validating admission
  bool converted = false;  ///< `object` comes from the webhook: not defaulted by its schema yet
  bool generated_name = false;
  bool has_version = false;  ///< the client said which version it changes

  /// Calls `done`, once, after letting the next writer of this object in.
  void finish(Expected<WriteResult> result);
  [[nodiscard]] const WriteContext& context();
  [[nodiscard]] Error not_found() const;
};
using WriteOpPtr = std::shared_ptr<WriteOp>;

/// @param object decoded, in the request's version.
void create_object(const WriteOpPtr& op, krm::Json object);
/// Reads, changes by op->change, stores; again on conflict.
void update_object(const WriteOpPtr& op);
/// An apply that wanted to create found the name taken: changes what is there instead.
void apply_to_taken(const WriteOpPtr& op);
void delete_object(const WriteOpPtr& op, const DeleteOptions& options);

/// Runs hooks.admit, then `next`; failures finish the operation.
void admit(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
           std::function<void()> next);
/// Validating admission: what receive_any had to say, then hooks.approve, then `next`.
void approve(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
             std::function<void()> next);
/// Hooks::prepare and what the server and the view do to every object.
[[nodiscard]] Expected<void> prepare_write(WriteOp& op, krm::Json& object, const krm::Json* old);
/// Metadata, schema and hooks. @error kInvalid
[[nodiscard]] Expected<void> validate_write(WriteOp& op);
/// `next` with op.object in its storage version where that takes the webhook; failures finish the
/// operation.
void with_stored_form(const WriteOpPtr& op, std::function<void()> next);
/// The stored bytes of op.object. @error kRequestEntityTooLarge (AM-059)
[[nodiscard]] Expected<std::string> encode_write(WriteOp& op);
/// Commits op.object under op.key. `next` gets true when it was stored, false on a conflict;
/// failures finish the operation.
void commit_write(const WriteOpPtr& op, store::Op change,
                  std::function<void(bool stored, store::Revision revision)> next);
/// The answer for op.object without storing it.
[[nodiscard]] WriteResult dry_run_result(WriteOp& op, int status, store::Revision revision);
/// metadata.annotations["kcp.io/cluster"] in servers with logical clusters (AM-474).
void set_cluster_annotation(const WriteOp& op, krm::Json& object);
/// Takes it away, so that nobody owns it (kcp adds it below managedFields).
void drop_cluster_annotation(const WriteOp& op, krm::Json& object);
/// Who writes what, as managedFields are kept. @param now has to outlive the result.
[[nodiscard]] krm::OwnershipContext ownership_context(const WriteOp& op, std::string_view now);
/// managedFields of a write that is not an apply.
void track_fields(const WriteOp& op, const krm::Json* old, krm::Json& object);
/// Finalizers that still hold the object.
[[nodiscard]] bool is_held(const ResourceDef& def, const krm::Json& object);

}  // namespace kintsugi::apiserver::internal
