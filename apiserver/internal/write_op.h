#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apiserver/admission.h"
#include "apiserver/internal/key_queue.h"
#include "apiserver/internal/options.h"
#include "apiserver/served_kind.h"
#include "apiserver/view.h"
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

/// Makes the new object (request version) from the present one, null when there is none; may run
/// several times.
using Change = std::function<Expected<krm::Json>(const krm::Json& current)>;
/// Asks whether who changes what is not there may create it; answers the request itself if not.
using AskCreate = std::function<void(std::function<void()> allowed)>;

/// POST.
struct Create {
  krm::Json object;            ///< decoded, in the request's version
  bool keep_identity = false;  ///< uid and creation time are those of the object
};
/// PUT, of an object or a subresource. A lost race is told when the client said which version it
/// changes.
struct Update {
  Change change;
  bool unconditional = false;  ///< without resourceVersion is fine
  bool may_create = false;     ///< of an absent object creates it
  AskCreate ask_create;        ///< unset: allowed
};
/// PATCH by JSON patch, merge patch or strategic merge patch. Lost races are tried again.
struct Patch {
  Change change;
};
/// PATCH by server-side apply, which creates what is absent; `change` keeps managedFields itself.
struct Apply {
  Change change;
  AskCreate ask_create;
};
/// DELETE.
struct Delete {
  DeleteOptions options;
  bool of_collection = false;  ///< one of a collection, as admission sees it without a name
};
using Write = std::variant<Create, Update, Patch, Apply, Delete>;

/// One write on its way. Callbacks share it; its members are what WriteContext refers to, so it
/// outlives hooks that answer later. Threads: its loop.
struct WriteOp final : PendingWrite, std::enable_shared_from_this<WriteOp> {
  WriteOp(Server& owner, Write what) : server(owner), write(std::move(what)) {}

  Server& server;
  Write write;
  std::shared_ptr<View> view;  ///< null: the cluster as it is
  WriteOptions options;
  std::function<void(Expected<WriteResult>)> done;
  std::optional<std::weak_ptr<Request>> request;  ///< unset: a controller's
  std::shared_ptr<KeyQueue::Turn> turn;
  std::shared_ptr<KeyQueue::Turn> charge_turn;  ///< create that charges others
  std::optional<WriteContext> hook_context;
  std::optional<store::Fence> fence;  ///< WriteRequest::fence
  bool is_current = false;            ///< has seen what other processes had written
  int attempts = 0;
  int commit_attempts = 0;  ///< create: of those that found changed what they rest on or charge

  // The attempt that runs.
  std::string key;
  store::Entry entry;                 ///< what is stored now
  std::unique_ptr<krm::Json> object;  ///< storage version, about to be stored
  std::unique_ptr<krm::Json> old;     ///< storage version, stored now; null on create
  /// Custom kinds: the version in which `object` and `old` are; null: that of `kind`.
  ServedKindPtr written_as;
  Expected<void> refusal;           ///< of AdmissionStep::receive, told in validating admission
  std::vector<store::Op> rests_on;  ///< create: what has to be as it was when that was looked at
  bool creating = false;            ///< an update or apply that has found nothing and creates
  bool converted = false;           ///< `object` is the webhook's: not defaulted by its schema yet
  bool generated_name = false;      ///< create: by the server, out of generateName
  bool has_version = false;         ///< update: the client said which version it changes
  bool wants_newer = false;         ///< ... and has seen a newer one than this process

  [[nodiscard]] std::string_view verb() const noexcept override;
  [[nodiscard]] bool is_dry_run() const noexcept override { return options.dry_run; }
  [[nodiscard]] krm::Json options_document(Operation operation) const override;
  void convert(krm::Json object, ServedKindPtr to,
               std::function<void(Expected<krm::Json>)> converted) override;
  void take_back(krm::Json object, ServedKindPtr from,
                 std::function<void(Expected<krm::Json>)> taken) override;
  [[nodiscard]] Duration time_left() const override;

  template <class Kind>
  [[nodiscard]] bool is() const noexcept {
    return std::holds_alternative<Kind>(write);
  }
  /// Makes the object of a write that changes what is there. Not of others.
  [[nodiscard]] Expected<krm::Json> changed(const krm::Json& current) const;
  /// The client left while the write waited for its turn: it does not begin (SE-076).
  [[nodiscard]] bool is_abandoned() const;
  /// Calls `done`, once, after letting the next writer of this object in.
  void finish(Expected<WriteResult> result);
  void refuse(Error error) { finish(fail(std::move(error))); }
  [[nodiscard]] const WriteContext& context();
  [[nodiscard]] Error not_found() const;
};
using WriteOpPtr = std::shared_ptr<WriteOp>;

/// What is to be refused may be there already, written by another process: runs `again` once, when
/// that shows; where the store does not tell, the write is refused for that. False: there is
/// nothing to wait for.
[[nodiscard]] bool look_again(const WriteOpPtr& op, std::function<void()> again);

/// Does what op->write says; op->done hears of it.
void run_write(const WriteOpPtr& op);
/// An apply that wanted to create found the name taken: changes what is there instead.
void apply_to_taken(const WriteOpPtr& op);

// The ways of run_write().
void create_object(const WriteOpPtr& op, krm::Json object);
/// Reads, changes, stores; again on conflict.
void update_object(const WriteOpPtr& op);
void delete_object(const WriteOpPtr& op);

// Stages that they share. Where a stage has `next`, failures finish the operation.
/// Waits for the turn at op.key.
void take_turn(const WriteOpPtr& op, std::function<void()> next);
/// Hooks::prepare and what the server and the view do to every object.
/// @param before  of a mutation, to which the same was done; null: the object is as it came
[[nodiscard]] Expected<void> prepare_write(WriteOp& op, krm::Json& object, const krm::Json* old,
                                           const krm::Json* before = nullptr);
/// Hooks::admit.
void admit(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
           std::function<void()> next);
/// AdmissionStep::mutate of all steps. What changes is prepared and admitted anew.
void mutate(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
            std::function<void()> next);
/// op.object becomes what mutations have made of it, in its form; system fields stay.
/// @error is the answer
[[nodiscard]] Expected<void> accept_new(WriteOp& op, krm::Json changed);
[[nodiscard]] Expected<void> accept_update(WriteOp& op, krm::Json changed);
/// Entries of managedFields that cannot be read, as a mutation left them, become those before.
void keep_managed_fields(WriteOp& op, const krm::Json& before, krm::Json& changed);
/// Metadata, schema, rules and hooks. @error kInvalid, kTooManyRequests
void validate_write(const WriteOpPtr& op, std::function<void()> next);
/// Puts the defaults of the storage version into an object of a kind that this process defines:
/// what Hooks::prepare left out so that the schema judges it without (KK-019). validate_write does
/// so.
void fill_stored_defaults(const WriteOp& op, krm::Json& object);
/// fill_stored_defaults() looks for what is missing; false: it does nothing.
[[nodiscard]] bool has_stored_defaults(const WriteOp& op);
/// The resource is still served, and AdmissionStep::check_new. Fills op.rests_on.
[[nodiscard]] Expected<void> check_new(WriteOp& op);
/// The answer to a create while what its kind is served by is being deleted (AM-385).
[[nodiscard]] Error kind_terminates(const WriteOp& op);
/// What AdmissionStep::receive had to say, then Hooks::approve, then AdmissionStep::review.
void approve(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
             std::function<void()> next);
/// AdmissionStep::mutate and review of a subresource that answers creates itself.
/// @param body  of its kind; may be changed
void review_subresource(const WriteOpPtr& op, const ResourceDef::ExtraSubresource& extra,
                        std::shared_ptr<krm::Json> body, std::function<void()> next);
/// `next` with op.object in its storage version where that takes the webhook.
void with_stored_form(const WriteOpPtr& op, std::function<void()> next);
/// The stored bytes of op.object. @error kRequestEntityTooLarge (AM-059)
[[nodiscard]] Expected<std::string> encode_write(WriteOp& op);
/// Server::commit under op.fence, as a span of the request (OP-503).
void commit_ops(const WriteOpPtr& op, std::vector<store::Op> ops,
                std::function<void(Expected<store::CommitResult>)> done);
/// Commits op.object under op.key. `next` gets true when it was stored, false on a conflict.
void commit_write(const WriteOpPtr& op, store::Op change,
                  std::function<void(bool stored, store::Revision revision)> next);
/// The answer for op.object without storing it.
[[nodiscard]] WriteResult dry_run_result(WriteOp& op, int status, store::Revision revision);

/// krm::kClusterAnnotation in servers with logical clusters (AM-474).
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
