#include "controlplane/controllers/internal/migration_controller.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "krm/finalizers.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kMoveFinalizer = "migration.kcp.io/move";
constexpr std::string_view kMoved = "Moved";  // the condition
constexpr Duration kLongestCopy = seconds(30);
constexpr Duration kTryAgain = milliseconds(300);
constexpr Duration kWaitForShard = seconds(5);
constexpr Duration kStepTimeout = seconds(10);

apiserver::ObjectKey migration_key(std::string_view name) {
  return {std::string(kRootCluster), std::string(kMigrationGroup), std::string(kMigrations), "",
          std::string(name)};
}

Error step_error(const net::FetchResponse& response) {
  const Expected<Json> status = Json::parse(response.body);
  const std::string text = status ? std::string(status->text({"message"})) : std::string();
  const bool is_final = status && status->text({"reason"}) == "Invalid";
  return Error(is_final ? Errc::kInvalid : Errc::kUnavailable,
               is_final ? text : std::to_string(response.status) + ": " + text);
}

}  // namespace

struct MigrationController::Job {
  apiserver::ObjectKey key;
  std::string text;
  Json object;
  std::string uid, cluster, from, to;
  Finished finished;
  std::string next;  // where the copy goes on
  std::int64_t pages = 0, rows = 0;
  std::int64_t revision = 0;  // behind all that the origin has told
};

MigrationController::MigrationController(const apiserver::ControllerContext& context, Params params)
    : apiserver::ControllerBase(context, "kintsugi-migration", 4), params_(std::move(params)) {}

void MigrationController::start() {
  follow(kMigrationGroup, kMigrations, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr && change.cluster == kRootCluster) {
      queue_.add(migration_key(change.name).pack());
    }
  });
}

void MigrationController::add_cluster(std::string_view cluster) {
  if (cluster != kRootCluster) {
    return;
  }
  reader().list(cluster, kMigrationGroup, kMigrations, "", [&](const Json& one) {
    queue_.add(migration_key(one.text({"metadata", "name"})).pack());
    return true;
  });
}

void MigrationController::process(const std::string& text, Finished finished) {
  auto job = std::make_shared<Job>();
  job->key = apiserver::ObjectKey::unpack(text);
  job->text = text;
  std::optional<Json> object = get(job->key);
  if (!object) {
    since_.erase(text);
    finished(true);
    return;
  }
  job->object = std::move(*object);
  job->finished = std::move(finished);
  job->uid = apiserver::uid_of(job->object);
  job->cluster = job->object.text({"spec", "logicalCluster"});
  job->to = job->object.text({"spec", "destinationShard"});
  job->from = job->object.text({"status", "originShard"});
  const std::string_view phase = job->object.text({"status", "phase"});
  if (phase == "Migrating") {
    if (apiserver::is_deleted(job->object)) {
      give_up(job, "the LogicalClusterMigration was deleted");
    } else {
      copy(job);
    }
  } else if (phase == "OriginCleanup") {
    clean(job);
  } else if (phase == "DestinationFinalize") {
    finalize(job);
  } else if (phase == "Completed" || phase == "Failed" || apiserver::is_deleted(job->object)) {
    forget(job);
  } else {
    prepare(job);
  }
}

void MigrationController::ask(const JobPtr& job, const std::string& shard, std::string_view step,
                              Json more, Answered done) {
  more["step"] = step;
  more["migration"] = job->uid;
  more["from"] = job->from;
  more["to"] = job->to;
  done = alive_.guard(std::move(done));
  if (shard == params_.shard) {
    params_.steps.run(job->cluster, more, std::move(done));
    return;
  }
  Json body =
      Json::object({{"apiVersion", "migration.kcp.io/v1alpha1"}, {"kind", "LogicalClusterDump"}});
  body["metadata"] = Json::object();
  body["spec"] = std::move(more);
  net::FetchRequest request;
  request.method = "POST";
  request.target = std::string(krm::kServicesPrefix) + "moves/" + job->cluster +
                   krm::cluster_root(job->cluster) +
                   "/apis/migration.kcp.io/v1alpha1/logicalclusterdumps";
  request.headers.add("accept", "application/json");
  request.headers.add("content-type", "application/json");
  request.headers.add("user-agent", "kintsugi-migration");
  request.body = body.dump();
  request.timeout = kStepTimeout;
  request.kind = net::UpstreamClass::kWrite;
  params_.peers.send(shard, std::move(request),
                     [done = std::move(done)](Expected<net::FetchResponse> answer) {
                       if (!answer) {
                         done(fail(std::move(answer.error())));
                         return;
                       }
                       if (answer->status != 201) {
                         done(fail(step_error(*answer)));
                         return;
                       }
                       const Expected<Json> object = Json::parse(answer->body);
                       const Json* status = object ? object->find("status") : nullptr;
                       if (status == nullptr) {
                         done(fail(Errc::kProtocol, "the answer has no status"));
                       } else {
                         done(*status);
                       }
                     });
}

void MigrationController::enter(const JobPtr& job, std::string_view phase, std::string_view reason,
                                const std::string& message) {
  Json updated = job->object;
  updated.make({"status", "phase"}) = phase;
  if (!job->from.empty()) {
    updated.make({"status", "originShard"}) = job->from;
  }
  if (job->rows > 0) {
    updated.make({"status", "entriesCopied"}) = job->rows;
  }
  if (phase == "Completed") {
    set_kcp_condition(updated, kMoved, "True");
  } else {
    set_kcp_condition(updated, kMoved, "False", phase == "Failed" ? "Error" : "Info",
                      reason.empty() ? phase : reason, message);
  }
  settle_status(job->key, job->object, std::move(updated), job->finished);
}

void MigrationController::wait(const JobPtr& job, std::string_view reason,
                               const std::string& message) {
  queue_.add_after(job->text, kWaitForShard);
  enter(job, "Preparing", reason, message);
}

void MigrationController::prepare(const JobPtr& job) {
  const ShardRecord* to = params_.root.shard(job->to);
  if (!params_.root.synced() || to == nullptr) {
    wait(job, "ShardNotFound", "Shard \"" + job->to + "\" is not known");
    return;
  }
  if (to->unschedulable) {
    wait(job, "ShardUnschedulable", "Shard \"" + job->to + "\" takes no logical clusters");
    return;
  }
  if (!apiserver::has_finalizer(job->object, kMoveFinalizer)) {
    Json updated = job->object;
    updated.make({"metadata", "finalizers"}).push_back(Json(kMoveFinalizer));
    update(job->key, "", std::move(updated),
           [job](const Expected<Json>& stored) { job->finished(stored.has_value()); });
    return;
  }
  find_origin(job);
}

void MigrationController::find_origin(const JobPtr& job) {
  struct Search {
    std::size_t pending = 1;
    bool sure = true;
    std::vector<std::string> found;
  };
  auto search = std::make_shared<Search>();
  const std::function<void()> answer = alive_.guard([this, job, search] {
    if (--search->pending > 0) {
      return;
    }
    std::erase(search->found, job->to);
    if (!search->found.empty()) {
      job->from = search->found.front();
      enter(job, "Migrating");
    } else if (search->sure) {
      enter(job, "Failed", "LogicalClusterNotFound",
            "no other Shard has logical cluster \"" + job->cluster + "\"");
    } else {
      wait(job, "ShardUnavailable", "not all Shards answer");
    }
  });
  for (const auto& [name, record] : params_.root.shards()) {
    ++search->pending;
    params_.access.get(name, job->cluster,
                       [search, answer, name = name](Expected<std::optional<Json>> found) {
                         search->sure = search->sure && found;
                         if (found && *found) {
                           search->found.push_back(name);
                         }
                         answer();
                       });
  }
  answer();
}

void MigrationController::failed(const JobPtr& job, const Error& error) {
  const TimePoint since = since_.try_emplace(job->text, context_.loop.now()).first->second;
  const std::string text(error.message());
  log_warn("a logical cluster does not move on",
           {{"cluster", job->cluster}, {"to", job->to}, {"error", error.to_string()}});
  if (error.code() == Errc::kInvalid || context_.loop.now() - since > kLongestCopy) {
    give_up(job, text);
    return;
  }
  queue_.add_once_after(job->text, kTryAgain);
  job->finished(true);
}

void MigrationController::copy(const JobPtr& job) {
  since_.try_emplace(job->text, context_.loop.now());
  ask(job, job->to, "begin", Json::object(), [this, job](const Expected<Json>& begun) {
    const Json* arrived = begun ? begun->find("arrived") : nullptr;
    if (!begun) {
      failed(job, begun.error());
    } else if (arrived != nullptr && arrived->as_bool()) {
      enter(job, "OriginCleanup");
    } else {
      fence(job);
    }
  });
}

void MigrationController::fence(const JobPtr& job) {
  ask(job, job->from, "fence", Json::object(), [this, job](const Expected<Json>& closed) {
    if (!closed) {
      failed(job, closed.error());
      return;
    }
    const Json* revision = closed->find("revision");
    job->revision = revision == nullptr ? 0 : revision->as_integer();
    next_page(job);
  });
}

void MigrationController::next_page(const JobPtr& job) {
  ask(job, job->from, "page", Json::object({{"continue", job->next}}),
      [this, job](const Expected<Json>& page) {
        const Json* entries = page ? page->find("entries") : nullptr;
        if (entries == nullptr) {
          failed(job,
                 page ? Error(Errc::kProtocol, "a page without entries") : page.error().clone());
          return;
        }
        job->next = page->text({"continue"});
        job->rows += static_cast<std::int64_t>(entries->size());
        ask(job, job->to, "take", Json::object({{"number", job->pages++}, {"entries", *entries}}),
            [this, job](const Expected<Json>& taken) {
              if (!taken) {
                failed(job, taken.error());
              } else if (job->next.empty()) {
                arrive(job);
              } else {
                next_page(job);
              }
            });
      });
}

void MigrationController::arrive(const JobPtr& job) {
  ask(job, job->to, "arrive", Json::object({{"pages", job->pages}, {"revision", job->revision}}),
      [this, job](const Expected<Json>& arrived) {
        if (arrived) {
          enter(job, "OriginCleanup");
        } else {
          failed(job, arrived.error());
        }
      });
}

void MigrationController::clean(const JobPtr& job) {
  since_.erase(job->text);
  insist(job, job->from, "leave", "the origin does not give up what has moved",
         "DestinationFinalize");
}

void MigrationController::finalize(const JobPtr& job) {
  insist(job, job->to, "settle", "the destination does not say that a move is over", "Completed");
}

void MigrationController::insist(const JobPtr& job, const std::string& shard, const char* step,
                                 const char* fault, const char* phase) {
  ask(job, shard, step, Json::object(),
      [this, job, shard, fault, phase](const Expected<Json>& done) {
        if (!done) {
          log_warn(
              fault,
              {{"cluster", job->cluster}, {"shard", shard}, {"error", done.error().to_string()}});
          queue_.add_once_after(job->text, kTryAgain);
          job->finished(true);
          return;
        }
        enter(job, phase);
      });
}

/// The destination says first that it will not have it; only then may the origin go on.
void MigrationController::give_up(const JobPtr& job, const std::string& why) {
  ask(job, job->to, "abandon", Json::object(), [this, job, why](const Expected<Json>& abandoned) {
    const Json* arrived = abandoned ? abandoned->find("arrived") : nullptr;
    if (!abandoned) {
      queue_.add_once_after(job->text, kTryAgain);
      job->finished(true);
    } else if (arrived != nullptr && arrived->as_bool()) {
      enter(job, "OriginCleanup");
    } else {
      release(job, why);
    }
  });
}

void MigrationController::release(const JobPtr& job, const std::string& why) {
  ask(job, job->from, "release", Json::object(), [this, job, why](const Expected<Json>& released) {
    if (!released) {
      queue_.add_once_after(job->text, kTryAgain);
      job->finished(true);
      return;
    }
    since_.erase(job->text);
    enter(job, "Failed", "MoveFailed", why);
  });
}

void MigrationController::forget(const JobPtr& job) {
  since_.erase(job->text);
  Json updated = job->object;
  if (!apiserver::drop_finalizer(updated, kMoveFinalizer)) {
    job->finished(true);
    return;
  }
  update(job->key, "", std::move(updated), [job](const Expected<Json>& stored) {
    job->finished(stored.has_value() || stored.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::controlplane
