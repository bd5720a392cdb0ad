#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/controllers/internal/cascade_pace.h"
#include "apiserver/controllers/internal/write_guard.h"
#include "apiserver/server.h"
#include "base/alive.h"
#include "net/loop.h"
#include "net/work_queue.h"

/// Controllers of the API server: each keeps one promise about stored objects, level-based, on one
/// loop. They read through ApiServer::reader, follow ApiServer::on_change, write through
/// ApiServer::write and queue keys, never events.
namespace kintsugi::apiserver {

/// What every controller works with; all outlive it.
struct ControllerContext {
  net::Loop& loop;
  ApiServer& server;
  const Registry& registry;
  /// One for all controllers that have copies of this context.
  std::shared_ptr<CascadeGate> cascades = std::make_shared<CascadeGate>(loop);
  /// Of the duty in which they write; nullopt: there is none.
  std::optional<store::Fence> fence{};
};

class Controller {
 public:
  virtual ~Controller() = default;
  /// Follows changes from now on. Once, before add_cluster.
  virtual void start() = 0;
  /// Looks at what is stored in a logical cluster: at start for each, later for each new one.
  /// Calling it again is harmless.
  virtual void add_cluster(std::string_view cluster) = 0;
  /// Nothing is to be done for this cluster any more.
  virtual void remove_cluster(std::string_view cluster) { (void)cluster; }
  /// Keys that wait or run now.
  [[nodiscard]] virtual std::size_t busy() const = 0;
};

/// Where an object is. Packs into a work-queue key.
struct ObjectKey {
  std::string cluster, group, resource, ns, name;
  [[nodiscard]] std::string pack() const;
  [[nodiscard]] static ObjectKey unpack(std::string_view text);
  bool operator==(const ObjectKey&) const = default;
};

/// Common ground: context, one queue, writes whose answers are dropped when the controller is gone.
/// An object that the controller would write for ever gets condition Stalled and rests
/// (write_guard.h).
class ControllerBase : public Controller {
 public:
  [[nodiscard]] std::size_t busy() const override { return queue_.busy(); }

 protected:
  using Finished = net::WorkQueue::Finished;
  using WriteDone = std::function<void(Expected<krm::Json>)>;

  ControllerBase(const ControllerContext& context, const char* manager, std::size_t parallel = 32);
  /// The work of one key; calls `finished` once.
  virtual void process(const std::string& key, Finished finished) = 0;
  /// What it writes counts other objects, which come and go as often as their users like.
  [[nodiscard]] virtual bool counts_others() const noexcept { return false; }

  [[nodiscard]] const ObjectReader& reader() const { return context_.server.reader(); }
  [[nodiscard]] std::optional<krm::Json> get(const ObjectKey& key) const;
  void follow(std::string_view group, std::string_view resource,
              std::function<void(const ApiServer::Change&)> listener);
  void create(const ObjectKey& key, krm::Json object, WriteDone done);
  /// @param object as read, changed; its resourceVersion guards the write.
  /// @error (in done) also kConflict when the object was written too often: to be tried later.
  void update(const ObjectKey& key, std::string subresource, krm::Json object, WriteDone done);
  void remove(const ObjectKey& key, std::string uid, WriteDone done);
  /// The same of an object that goes because of another's deletion: a cluster's objects go no
  /// faster than CascadePace says, and meanwhile other keys have the place of `work`.
  /// @param work  the key of queue_ that is being processed
  /// @param still_due  asked after a wait; empty: it is
  /// @error (in done) also kConflict when it is not due any more.
  void remove_in_cascade(std::string_view work, const ObjectKey& key, std::string uid,
                         WriteDone done, std::function<bool()> still_due = nullptr);
  /// The last thing done for a key: writes the status of `now`, unless all is as in `before`.
  void settle_status(const ObjectKey& key, const krm::Json& before, krm::Json now,
                     Finished finished);

  ControllerContext context_;
  net::WorkQueue queue_;
  Alive alive_;  ///< for callbacks of whatever may outlive the controller

 private:
  void send(ApiServer::WriteRequest request, WriteDone done);
  void stall(const ObjectKey& key);
  std::string manager_;
  WriteGuard guard_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

// Small readings of metadata.
[[nodiscard]] bool is_deleted(const krm::Json& object);  ///< has a deletionTimestamp
[[nodiscard]] std::string uid_of(const krm::Json& object);
[[nodiscard]] store::Revision revision_of(const krm::Json& object);  ///< resourceVersion; 0: none
[[nodiscard]] bool has_finalizer(const krm::Json& object, std::string_view finalizer);
/// False when it was not there.
bool drop_finalizer(krm::Json& object, std::string_view finalizer);
/// Sets a condition by type in status.conditions; lastTransitionTime moves with `status` only.
/// Returns whether anything changed.
bool set_condition(krm::Json& object, std::string_view type, std::string_view status,
                   std::string_view reason, std::string_view message);
[[nodiscard]] const krm::Json* find_condition(const krm::Json& object, std::string_view type);
/// NotFound, or a uid precondition that failed: what was to go is gone.
[[nodiscard]] bool is_gone(const Expected<krm::Json>& deleted);

}  // namespace kintsugi::apiserver
