#include "controlplane/replication/replication_grace.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "controlplane/internal/names.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr int kRetrySeconds = 1;

/// Not a word of what was asked for: it is said of what is there and of what is not.
Error not_complete() {
  Error error(Errc::kUnavailable,
              "what other shards hold has not been read yet, please try again.");
  error.edit().retry_after_seconds = kRetrySeconds;
  return error;
}

bool is_elsewhere(ClusterIndex& index, std::string_view path) {
  return !path.empty() && index.resolve(path).where != ClusterIndex::Where::kHere;
}

}  // namespace

/// One admission. The write that asks lives until `done` is called or dropped, and with it what the
/// pointers lead to.
struct ReplicationGrace::Try {
  std::shared_ptr<const Admit> admit;
  const apiserver::WriteContext& context;
  const Json* object;
  const Json* old;
  apiserver::Hooks::AdmitDone done;
  bool is_cold;  ///< when it began
  int left = kTries;
};

void ReplicationGrace::stop() {
  for (const auto& [timer, attempt] : waiting_) {
    loop_.cancel(timer);
  }
  waiting_.clear();
}

ReplicationGrace::Admit ReplicationGrace::around(Admit admit, MayBeLate may_be_late) {
  auto shared = std::make_shared<const Admit>(std::move(admit));
  return [this, shared, may_be_late = std::move(may_be_late)](
             const apiserver::WriteContext& context, const Json* object, const Json* old,
             apiserver::Hooks::AdmitDone done) {
    if (object == nullptr || !may_be_late(context, *object)) {
      (*shared)(context, object, old, std::move(done));
      return;
    }
    run(std::make_shared<Try>(Try{shared, context, object, old, std::move(done), !is_complete_()}));
  };
}

void ReplicationGrace::run(const std::shared_ptr<Try>& attempt) {
  (*attempt->admit)(attempt->context, attempt->object, attempt->old,
                    [this, attempt](Expected<void> result) {
                      const bool refused = !result && result.error().code() == Errc::kForbidden;
                      if (!refused || --attempt->left == 0 || waiting_.size() >= kMostWaiting) {
                        const apiserver::Hooks::AdmitDone done = std::move(attempt->done);
                        if (refused && attempt->is_cold) {
                          result = fail(not_complete());
                        }
                        done(std::move(result));
                        return;
                      }
                      auto id = std::make_shared<net::Loop::TimerId>();
                      *id = loop_.after(kPause, [this, id] {
                        const auto node = waiting_.extract(*id);
                        run(node.mapped());
                      });
                      waiting_.emplace(*id, attempt);
                    });
}

apiserver::ResourcePtr with_grace(apiserver::ResourcePtr kind, ReplicationGrace& grace,
                                  ClusterIndex& index, const WorkspaceTypeLookup& types) {
  ReplicationGrace::MayBeLate may_be_late;
  if (kind->group == kApisGroup && kind->plural == kApiBindings) {
    may_be_late = [&index](const apiserver::WriteContext&, const Json& binding) {
      return is_elsewhere(index, binding.text({"spec", "reference", "export", "path"}));
    };
  } else if (kind->group == kTenancyGroup && kind->plural == kWorkspaces) {
    // A type that is not known yet would come too late for what it adds to the workspace.
    may_be_late = [&](const apiserver::WriteContext& context, const Json& workspace) {
      const std::string_view path = workspace.text({"spec", "type", "path"});
      return is_elsewhere(index, path) &&
             (!grace.is_complete() ||
              types.find(context.reader, path, workspace.text({"spec", "type", "name"})));
    };
  } else if (kind->group == kTenancyGroup && kind->plural == kWorkspaceTypes) {
    may_be_late = [&index](const apiserver::WriteContext&, const Json& type) {
      const Json* list = type.at({"spec", "defaultAPIBindings"});
      return list != nullptr &&
             std::any_of(list->items().begin(), list->items().end(), [&](const Json& reference) {
               return is_elsewhere(index, reference.text({"path"}));
             });
    };
  }
  if (!may_be_late) {
    return kind;
  }
  apiserver::ResourceDef def = *kind;
  for (ReplicationGrace::Admit* hook : {&def.hooks.admit, &def.hooks.approve}) {
    if (*hook) {
      *hook = grace.around(std::move(*hook), may_be_late);
    }
  }
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace kintsugi::controlplane
