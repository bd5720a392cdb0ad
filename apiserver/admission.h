#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/resource.h"
#include "apiserver/served_kind.h"
#include "auth/user.h"
#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "store/store.h"

/// What is asked of every write besides the rules of its own kind (Hooks). The machinery knows no
/// such rule itself: whoever makes a server gives it a chain of AdmissionStep
/// (ServerParams::admission). Order of all stages of a write:
///   1. AdmissionStep::receive, Hooks::prepare, View::prepare, AdmissionStep::prepare
///   2. Hooks::admit
///   3. AdmissionStep::mutate; after a change 1 and 2 once more, of what it has become
///   4. schema, metadata and Hooks::validate
///   5. of creates: AdmissionStep::check_new
///   6. what AdmissionStep::receive refused, then Hooks::approve
///   7. AdmissionStep::review
///   8. of creates: AdmissionStep::charge, in the transaction that stores the object
///   9. AdmissionStep::keeps: limits that the store keeps to in that transaction
/// Deletes have 2, 3, 6 and 7. A later step of the chain is not asked what an earlier one refused.
namespace kintsugi::apiserver {

class ApiServer;

/// A resource in one version, or the kind of its objects.
struct GroupVersionName {
  std::string group, version, name;  ///< plural or Kind
  bool operator==(const GroupVersionName&) const = default;
};

enum class Operation : std::uint8_t { kCreate, kUpdate, kDelete };

/// A write on its way, from the wire or from a controller. Threads: its loop. Lifetime: shared by
/// all that wait for something.
class PendingWrite {
 public:
  virtual ~PendingWrite() = default;

  ServedKindPtr kind;  ///< as the request names it
  std::string cluster, ns, name, subresource;
  auth::UserInfo user;
  std::string manager;          ///< whose fields it writes
  bool skip_admission = false;  ///< a controller's, of system objects that users may not make
  std::vector<std::string> warnings;
  /// What admission has to say besides yes and no, in the attempt that runs.
  struct Notes {
    std::vector<std::string> warnings;
    std::vector<std::pair<std::string, std::string>> annotations;  ///< of the audit event
    /// The Status of a refusal where somebody else has worded it: sent in place of the error's.
    std::optional<krm::Json> status;
  };
  Notes notes;

  /// create, update, patch or delete; of an update that has become a create: create.
  [[nodiscard]] virtual std::string_view verb() const noexcept = 0;
  [[nodiscard]] virtual bool is_dry_run() const noexcept = 0;
  /// CreateOptions, UpdateOptions or DeleteOptions of meta.k8s.io, as they were given.
  [[nodiscard]] virtual krm::Json options_document(Operation operation) const = 0;
  /// Rewrites an object that a review shows to another version of its resource, or of another view
  /// of the same objects (ResourceDef::stored_under_group). `done` at once, or later when that
  /// takes the webhook. @error what the webhook fails with
  virtual void convert(krm::Json object, ServedKindPtr to,
                       std::function<void(Expected<krm::Json>)> done) = 0;
  /// The way back, of what somebody has made of such an object: members that the kind does not know
  /// go, defaults come, as with a body. @error kBadRequest it is none of the kind; what the webhook
  /// fails with
  virtual void take_back(krm::Json object, ServedKindPtr from,
                         std::function<void(Expected<krm::Json>)> done) = 0;
  /// How long the answer may still take. Zero: nobody waits for it any more.
  [[nodiscard]] virtual Duration time_left() const = 0;

 protected:
  PendingWrite() = default;
  PendingWrite(const PendingWrite&) = default;
  PendingWrite& operator=(const PendingWrite&) = default;
};
using PendingWritePtr = std::shared_ptr<PendingWrite>;

/// What a write is about to do.
struct Review {
  Operation operation = Operation::kCreate;
  std::string name;       ///< "": one of a collection that is deleted
  GroupVersionName kind;  ///< of the objects: that of a subresource where it has its own
  /// Objects of a subresource: they have no other form, PendingWrite::convert is not for them.
  bool has_one_form = false;
  std::shared_ptr<const krm::Json> object;  ///< null on delete; as Hooks::validate sees it
  std::shared_ptr<const krm::Json> old;     ///< null on create
};

/// What AdmissionStep::mutate has made of an object; null: it stays as it is.
using Changed = std::shared_ptr<const krm::Json>;

/// A rule about writes of all kinds. Each server has its own; all members are called on its loop.
class AdmissionStep {
 public:
  virtual ~AdmissionStep() = default;
  /// Once, before the first request. @param server outlives this.
  virtual void start(ApiServer& server) { (void)server; }

  /// Sees an object as its writer wants it, before Hooks::prepare adds to it, and once more what
  /// View::prepare made of it (`old` is then the object before that). May change it.
  /// @error is the answer where the schema and the rules of the kind are kept (6)
  [[nodiscard]] virtual Expected<void> receive(const WriteContext& context, const ResourceDef& def,
                                               krm::Json& object, const krm::Json* old) {
    (void)context;
    (void)def;
    (void)object;
    (void)old;
    return {};
  }
  /// Sees what Hooks::prepare and View::prepare have made of it, for what the server keeps on all
  /// objects or lets nobody else keep there. May change it. @error is the answer
  [[nodiscard]] virtual Expected<void> prepare(const WriteContext& context, const ResourceDef& def,
                                               krm::Json& object, const krm::Json* old) {
    (void)context;
    (void)def;
    (void)object;
    (void)old;
    return {};
  }

  /// Whether mutate() is to be called. Asked of every write, so it should cost next to nothing.
  [[nodiscard]] virtual bool may_change(const PendingWrite& write) const {
    (void)write;
    return false;
  }
  /// May change what is about to be validated, in the form in which the review shows it; not what a
  /// delete deletes. Calls `done` exactly once, at once or later. @error (in done) is the answer
  virtual void mutate(const PendingWritePtr& write, Review review,
                      std::function<void(Expected<Changed>)> done) {
    (void)write;
    (void)review;
    done(Changed());
  }

  /// Whether a valid new object may be where it wants to be.
  /// @returns the objects that this rests on (store::unchanged); it is asked again when one of them
  /// has changed before the new object is stored. @error is the answer
  [[nodiscard]] virtual Expected<std::vector<store::Op>> check_new(
      const PendingWrite& write) const {
    (void)write;
    return std::vector<store::Op>();
  }

  /// Whether review() is to be called. Asked of every write, so it should cost next to nothing.
  [[nodiscard]] virtual bool concerns(const PendingWrite& write) const {
    (void)write;
    return false;
  }
  /// Looks at what is about to be stored, deleted, or given to a subresource that answers creates
  /// itself. Calls `done` exactly once, at once or later. @error (in done) is the answer
  virtual void review(const PendingWritePtr& write, Review review,
                      std::function<void(Expected<void>)> done) {
    (void)write;
    (void)review;
    done({});
  }

  /// Changes of other objects that belong into the transaction that stores a new one. Each expects
  /// what it has read (store::Op), so that of two creates that saw the same only one is stored; the
  /// other is asked again. Creates with such changes in one namespace wait for each other.
  /// @error is the answer
  [[nodiscard]] virtual Expected<std::vector<store::Op>> charge(const PendingWrite& write) const {
    (void)write;
    return std::vector<store::Op>();
  }

  /// To which limits of the store's books a client's write keeps. Not asked of deletes, of objects
  /// that are being deleted, and of what controllers write: these are counted and pass.
  [[nodiscard]] virtual store::Keeps keeps(const PendingWrite& write) const {
    (void)write;
    return {};
  }
  /// What a write that would pass one is told; nullopt: another step knows.
  [[nodiscard]] virtual std::optional<Error> over(const PendingWrite& write,
                                                  const store::Excess& excess) const {
    (void)write;
    (void)excess;
    return std::nullopt;
  }
};

}  // namespace kintsugi::apiserver
