#include "controlplane/controllers/internal/migration_controller.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/own_program.h"
#include "krm/finalizers.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kMoveFinalizer = "migration.kcp.io/move";
constexpr std::string_view kMoved = "Moved";  // the condition
constexpr Duration kWaitForShard = seconds(5);
constexpr Duration kStepTimeout = seconds(10);

apiserver::ObjectKey migration_key(std::string_view name) {
  return {std::string(kRootCluster), std::string(kMigrationGroup), std::string(kMigrations), "",
          std::string(name)};
}

struct PhaseName {
  MovePhase phase;
  std::string_view name;
};
constexpr PhaseName kPhases[] = {{MovePhase::kPreparing, "Preparing"},
                                 {MovePhase::kMigrating, "Migrating"},
                                 {MovePhase::kOriginCleanup, "OriginCleanup"},
                                 {MovePhase::kDestinationFinalize, "DestinationFinalize"}};

MovePhase phase_of(std::string_view name) {
  for (const PhaseName& one : kPhases) {
    if (one.name == name) {
      return one.phase;
    }
  }
  return MovePhase::kPreparing;
}

std::string_view name_of(MovePhase phase) { return kPhases[static_cast<std::size_t>(phase)].name; }

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
  MovePhase phase = MovePhase::kPreparing;
  std::int64_t attempt = 0;
  Finished finished;
  MoveDrive* drive = nullptr;
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
    drives_.erase(text);
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
  const Json* attempt = job->object.at({"status", "attempts"});
  job->attempt = attempt == nullptr ? 0 : attempt->as_integer();
  job->phase = phase_of(phase);
  const bool is_new = job->phase == MovePhase::kPreparing && job->from.empty();
  if (phase == "Completed" || phase == "Failed" || (is_new && apiserver::is_deleted(job->object))) {
    forget(job);
  } else if (is_new) {
    prepare(job);
  } else {
    drive(job);
  }
}

void MigrationController::ask(const JobPtr& job, const std::string& shard, std::string_view step,
                              Json more, Answered done) {
  more["step"] = step;
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
  if (job->drive != nullptr && job->drive->rows() > 0) {
    updated.make({"status", "entriesCopied"}) = job->drive->rows();
  }
  if (job->attempt > 0) {
    updated.make({"status", "attempts"}) = job->attempt;
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
  if (apiserver::has_finalizer(job->object, kMoveFinalizer)) {
    find_origin(job);
    return;
  }
  look_at_destination(job);
}

/// When the object was made the shard may have been away.
void MigrationController::look_at_destination(const JobPtr& job) {
  const auto begin = [this, job](bool is_other) {
    if (is_other) {
      enter(job, "Failed", "OtherProgram", kNotOurProgram);
      return;
    }
    Json updated = job->object;
    updated.make({"metadata", "finalizers"}).push_back(Json(kMoveFinalizer));
    update(job->key, "", std::move(updated),
           [job](const Expected<Json>& stored) { job->finished(stored.has_value()); });
  };
  if (job->to == params_.shard) {
    begin(false);
  } else {
    ask_for_other_program(params_.peers, job->to, alive_.guard(std::function<void(bool)>(begin)));
  }
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
      enter(job, "Preparing", "Copying");
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

void MigrationController::drive(const JobPtr& job) {
  std::unique_ptr<MoveDrive>& drive_now = drives_[job->text];
  if (drive_now == nullptr || drive_now->attempt() != job->attempt) {
    drive_now = std::make_unique<MoveDrive>(job->uid, job->attempt);
  }
  job->drive = drive_now.get();
  MoveDrive::Action action =
      job->drive->next(job->phase, apiserver::is_deleted(job->object), context_.loop.now());
  switch (action.does) {
    case MoveDrive::Does::kAsk: {
      const std::string step(action.step);
      action.more["migration"] = action.migration;
      ask(job, action.at_origin ? job->from : job->to, step, std::move(action.more),
          [this, job, step](const Expected<Json>& answer) {
            if (!answer) {
              log_warn("a step of a move failed", {{"cluster", job->cluster},
                                                   {"step", step},
                                                   {"from", job->from},
                                                   {"to", job->to},
                                                   {"error", answer.error().to_string()}});
            }
            job->drive->answered(answer, context_.loop.now());
            drive(job);
          });
      break;
    }
    case MoveDrive::Does::kPause:
      queue_.add_once_after(job->text, action.pause);
      job->finished(true);
      break;
    case MoveDrive::Does::kEnter: {
      if (action.phase == MovePhase::kOriginCleanup) {
        log_info("a logical cluster has moved",
                 {{"cluster", job->cluster},
                  {"from", job->from},
                  {"to", job->to},
                  {"rows", static_cast<std::uint64_t>(job->drive->rows())},
                  {"stop_ms",
                   static_cast<std::uint64_t>(
                       std::chrono::duration_cast<milliseconds>(job->drive->stop()).count())}});
      }
      const bool is_again = action.attempt > job->attempt;
      job->attempt = is_again ? action.attempt : job->attempt;
      enter(job, name_of(action.phase), is_again ? "Retrying" : std::string_view(), action.note);
      break;
    }
    case MoveDrive::Does::kDone:
      if (action.failure.empty()) {
        enter(job, "Completed");
      } else {
        enter(job, "Failed", "MoveFailed", action.failure);
      }
      break;
  }
}

void MigrationController::forget(const JobPtr& job) {
  drives_.erase(job->text);
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
