#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/api_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/kubeconfig_set.h"
#include "cmd/kintsugi/rebalance_plan.h"
#include "cmd/kintsugi/text_table.h"
#include "cmd/kintsugi/workspace_path.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr std::string_view kMigrations = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations";

std::string migrations() { return std::string(krm::kRootClusterPath).append(kMigrations); }

constexpr std::string_view kLabel = "kintsugi.dev/rebalance";
constexpr int kMovesPerShard = 2;
constexpr Duration kLook = milliseconds(300);

struct RebalanceWords {
  std::string kubeconfig, apply, by = "objects", limit = "1.25", output = "table";
  std::uint32_t most_moves = 1'000;
  bool plan = false, cancel = false, across = false;
};

FlagTable rebalance_flags(RebalanceWords& words) {
  return {
      {"Rebalance",
       {{"plan", "", "", "prints which logical clusters should move, and why; moves nothing",
         into(words.plan)},
        {"apply", "FILE", "", "does what a plan in JSON says; stops at the first move that fails",
         into(words.apply)},
        {"cancel", "", "", "ends the moves of --apply that go on; what was given away stays so",
         into(words.cancel)},
        {"kubeconfig", "FILE", "",
         "of an administrator of root; else $KUBECONFIG, else ~/.kube/config",
         into(words.kubeconfig)}}},
      {"plan",
       {{"by", "objects|bytes|watches", "objects",
         "what is spread; watches: those of one logical cluster that are open now",
         [&words](std::string_view value) {
           return take_choice(value, {"objects", "objects", "bytes", "watches"}, words.by);
         }},
        {"limit", "RATIO", "1.25", "of the mean, what a shard may have", into(words.limit)},
        {"max-moves", "N", "1000", "no more than that", into(words.most_moves)},
        {"across", "", "", "also from one region (label `region` of Shards) to another",
         into(words.across)},
        {"output", "table|json", "table", "form of the plan; --apply reads json",
         [&words](std::string_view value) {
           return take_choice(value, {"table", "table", "json"}, words.output);
         }}}}};
}

std::int64_t number(const Json& object, std::string_view member) {
  const Json* value = object.find(member);
  return value == nullptr ? 0 : value->as_integer();
}

/// What a shard answers that does not know the question: kcp, or a plain Kubernetes server.
bool is_other_program(const Error& error) {
  return error.code() == Errc::kNotFound || error.code() == Errc::kForbidden;
}

/// Root and the shards behind one proxy, as their administrator sees them.
class Rebalancer {
 public:
  static Expected<Rebalancer> open(const std::string& kubeconfig) {
    auto config = KubeconfigSet::load(KubeconfigSet::default_files(kubeconfig));
    if (!config) {
      return fail(std::move(config.error()));
    }
    auto access = config->access();
    if (!access) {
      return fail(std::move(access.error()));
    }
    auto here = parse_workspace_url(access->server);
    if (!here) {
      return fail(std::move(here.error()));
    }
    auto client = ApiClient::make(*access, here->base);
    if (!client) {
      return fail(std::move(client.error()));
    }
    Rebalancer out;
    out.client_ = std::move(*client);
    return out;
  }

  Expected<RebalancePlan> plan(const RebalanceLimits& limits) {
    Expected<std::vector<Json>> found =
        client_->list(std::string(krm::kRootClusterPath) + "/apis/core.kcp.io/v1alpha1/shards");
    if (!found) {
      return fail(std::move(found.error()));
    }
    std::vector<RebalanceShard> shards;
    std::vector<RebalanceCluster> clusters;
    std::map<std::string, std::size_t> by_name;
    std::vector<Error> other_programs;
    for (const Json& one : *found) {
      RebalanceShard shard;
      shard.name = one.text({"metadata", "name"});
      const Json* labels = one.at({"metadata", "labels"});
      shard.labels = labels == nullptr ? Json::object() : *labels;
      shard.region = shard.labels.text({"region"});
      shard.unschedulable =
          one.text({"metadata", "annotations", krm::kUnschedulableAnnotation}) == "true" ||
          shard.labels.text({krm::kUnschedulableAnnotation}) == "true";
      Expected<Json> loads = client_->send("GET", std::string(krm::kShardsPrefix)
                                                      .append(percent_encode(shard.name))
                                                      .append(krm::kEverywhere)
                                                      .append("/debug/logical_clusters"));
      if (!loads) {
        Error error = loads.error().clone().at("shard " + shard.name);
        if (!is_other_program(loads.error())) {
          return fail(std::move(error));
        }
        other_programs.push_back(std::move(error));
        continue;
      }
      const Json* items = loads->find("items");
      for (const Json& item : items == nullptr ? Json::Array() : items->items()) {
        RebalanceCluster cluster;
        cluster.name = item.text({"cluster"});
        cluster.path = item.text({"path"});
        cluster.shard = shard.name;
        cluster.objects = number(item, "objects");
        cluster.bytes = number(item, "bytes");
        cluster.watches = number(item, "watches");
        cluster.stays = cluster.name == "root" || cluster.name.find(':') != std::string::npos ||
                        item.text({"phase"}) != "Ready";
        by_name[cluster.name] = clusters.size();
        clusters.push_back(std::move(cluster));
      }
      shards.push_back(std::move(shard));
    }
    if (shards.empty() && !other_programs.empty()) {
      return fail(std::move(other_programs.front()));
    }
    for (const Error& error : other_programs) {
      std::fprintf(stderr, "left alone, it does not say what it has: %s\n",
                   error.to_string().c_str());
    }
    Expected<std::vector<Json>> workspaces =
        client_->list(std::string(krm::kEverywhere) + "/apis/tenancy.kcp.io/v1alpha1/workspaces");
    if (!workspaces) {
      return fail(std::move(workspaces.error()));
    }
    for (const Json& one : *workspaces) {
      const auto cluster = by_name.find(std::string(one.text({"spec", "cluster"})));
      const Json* selector = one.at({"spec", "location", "selector"});
      if (cluster != by_name.end() && selector != nullptr) {
        Expected<krm::Selector> read = krm::Selector::from_json(*selector);
        clusters[cluster->second].stays = clusters[cluster->second].stays || !read;
        if (read) {
          clusters[cluster->second].selector = std::move(*read);
        }
      }
    }
    return plan_rebalance(shards, std::move(clusters), limits);
  }

  /// @error kConflict a move has failed; no other was begun then
  Expected<void> apply(const RebalancePlan& plan) {
    std::vector<RebalanceMove> waiting = plan.moves;
    std::map<std::string, RebalanceMove> running;  // by name of their objects
    std::string failed;
    while (!running.empty() || (failed.empty() && !waiting.empty())) {
      for (auto one = waiting.begin(); failed.empty() && one != waiting.end();) {
        if (busy(running, one->from) >= kMovesPerShard ||
            busy(running, one->to) >= kMovesPerShard) {
          ++one;
          continue;
        }
        const std::string name = "rebalance-" + one->cluster;
        Expected<bool> begun = begin(name, *one);
        if (!begun) {
          failed = one->cluster + ": " + std::string(begun.error().message());
        } else if (*begun) {
          running.emplace(name, *one);
        }
        one = waiting.erase(one);
      }
      for (auto one = running.begin(); one != running.end();) {
        Expected<bool> over = look(one->first, one->second);
        if (!over) {
          failed = failed.empty() ? one->second.cluster + ": " + std::string(over.error().message())
                                  : failed;
        }
        one = !over || *over ? running.erase(one) : std::next(one);
      }
      if (!running.empty()) {
        client_->pause(kLook);
      }
    }
    if (!failed.empty()) {
      return fail(Errc::kConflict, failed + "; " + std::to_string(waiting.size()) +
                                       " moves of the plan were not begun");
    }
    return {};
  }

  Expected<void> cancel() {
    Expected<std::vector<Json>> found = client_->list(migrations(), kLabel);
    if (!found) {
      return fail(std::move(found.error()));
    }
    for (const Json& one : *found) {
      const std::string_view phase = one.text({"status", "phase"});
      const std::string name(one.text({"metadata", "name"}));
      if (Expected<Json> gone = client_->send("DELETE", target(name));
          !gone && gone.error().code() != Errc::kNotFound) {
        return fail(std::move(gone.error()));
      }
      if (phase != "Completed" && phase != "Failed") {
        std::printf("%s to %s: cancelled in phase %s\n",
                    std::string(one.text({"spec", "logicalCluster"})).c_str(),
                    std::string(one.text({"spec", "destinationShard"})).c_str(),
                    std::string(phase).c_str());
      }
    }
    return {};
  }

 private:
  static std::string target(const std::string& name) {
    return migrations() + "/" + percent_encode(name);
  }
  static int busy(const std::map<std::string, RebalanceMove>& running, const std::string& shard) {
    return static_cast<int>(std::count_if(running.begin(), running.end(), [&](const auto& one) {
      return one.second.from == shard || one.second.to == shard;
    }));
  }

  /// @returns false: the cluster is there already.
  Expected<bool> begin(const std::string& name, const RebalanceMove& move) {
    if (Expected<Json> known = client_->send("GET", target(name))) {
      const std::string_view phase = known->text({"status", "phase"});
      const bool is_over = phase == "Completed" || phase == "Failed";
      if (!is_over && known->text({"spec", "destinationShard"}) == move.to) {
        return true;  // of an earlier --apply
      }
      if (is_over) {
        static_cast<void>(client_->send("DELETE", target(name)));
      }
    }
    Json object = Json::object(
        {{"apiVersion", "migration.kcp.io/v1alpha1"}, {"kind", "LogicalClusterMigration"}});
    object.make({"metadata", "name"}) = name;
    object.make({"metadata", "labels", kLabel}) = "true";
    object.make({"spec", "logicalCluster"}) = move.cluster;
    object.make({"spec", "destinationShard"}) = move.to;
    Expected<Json> made = client_->send("POST", migrations(), object);
    if (made) {
      std::printf("%s: from %s to %s\n", shown(move).c_str(), move.from.c_str(), move.to.c_str());
      std::fflush(stdout);
      return true;
    }
    if (made.error().code() == Errc::kInvalid &&
        made.error().message().find("the logical cluster is there") != std::string_view::npos) {
      return false;
    }
    return fail(std::move(made.error()));
  }

  /// @returns whether it is over. @error it has failed
  Expected<bool> look(const std::string& name, const RebalanceMove& move) {
    Expected<Json> object = client_->send("GET", target(name));
    if (!object) {
      return object.error().code() == Errc::kNotFound ? fail(Errc::kConflict, "it was cancelled")
                                                      : fail(std::move(object.error()));
    }
    const std::string_view phase = object->text({"status", "phase"});
    if (phase == "Failed") {
      std::string why = "the move failed";
      const Json* conditions = object->at({"status", "conditions"});
      for (const Json& one : conditions == nullptr ? Json::Array() : conditions->items()) {
        why = one.text({"type"}) == "Moved" ? std::string(one.text({"message"})) : why;
      }
      return fail(Errc::kConflict, why);
    }
    if (phase != "Completed") {
      return false;
    }
    static_cast<void>(client_->send("DELETE", target(name)));
    std::printf(
        "%s: is at %s, %lld rows\n", shown(move).c_str(), move.to.c_str(),
        static_cast<long long>(object->at({"status", "entriesCopied"}) == nullptr
                                   ? 0
                                   : object->at({"status", "entriesCopied"})->as_integer()));
    std::fflush(stdout);
    return true;
  }
  static std::string shown(const RebalanceMove& move) {
    return move.path.empty() ? move.cluster : move.path;
  }

  std::unique_ptr<ApiClient> client_;
};

void print_plan(const RebalancePlan& plan, bool as_json) {
  if (as_json) {
    std::printf("%s\n", to_json(plan).dump().c_str());
  } else if (plan.moves.empty()) {
    std::printf("Nothing is to be moved.\n");
  } else {
    std::vector<std::vector<std::string>> rows = {
        {"WORKSPACE", "CLUSTER", "FROM", "TO", "OBJECTS", "BYTES", "WATCHES", "REASON"}};
    for (const RebalanceMove& move : plan.moves) {
      rows.push_back({move.path, move.cluster, move.from, move.to, std::to_string(move.objects),
                      std::to_string(move.bytes), std::to_string(move.watches), move.reason});
    }
    std::printf("%s", text_table(rows).c_str());
  }
  for (const std::string& one : plan.left) {
    std::fprintf(stderr, "stays above the limit: %s\n", one.c_str());
  }
}

Expected<void> run(const RebalanceWords& words, const RebalanceLimits& limits) {
  Expected<Rebalancer> rebalancer = Rebalancer::open(words.kubeconfig);
  if (!rebalancer) {
    return fail(std::move(rebalancer.error()));
  }
  if (words.cancel) {
    return rebalancer->cancel();
  }
  if (words.plan) {
    Expected<RebalancePlan> plan = rebalancer->plan(limits);
    if (!plan) {
      return fail(std::move(plan.error()));
    }
    print_plan(*plan, words.output == "json");
    return {};
  }
  Expected<std::string> text = server::read_file(words.apply);
  if (!text) {
    return fail(std::move(text.error()));
  }
  Expected<RebalancePlan> plan = read_rebalance_plan(*text);
  if (!plan) {
    return fail(plan.error().clone().at(words.apply));
  }
  return rebalancer->apply(*plan);
}

}  // namespace

CommandAbout rebalance_about() {
  RebalanceWords words;
  return {
      "kintsugi rebalance --plan | --apply FILE | --cancel [options]",
      "Spreads logical clusters over embedded shards, by a plan that is made first and then "
      "done. They are served\nmeanwhile; writes to each stop for a moment (docs/operations.md). "
      "A plan moves the fewest bytes so that no\nshard has more than --limit times the mean, "
      "and keeps to location selectors of workspaces, unschedulable\nshards and regions. At "
      "most two moves of a shard go on at once.",
      {},
      without_setters(rebalance_flags(words))};
}

int run_rebalance(const std::vector<std::string>& arguments) {
  RebalanceWords words;
  if (const auto status =
          take_options("rebalance", rebalance_flags(words), rebalance_about, arguments)) {
    return *status;
  }
  const int asked = (words.plan ? 1 : 0) + (words.apply.empty() ? 0 : 1) + (words.cancel ? 1 : 0);
  if (asked != 1) {
    return wrong_usage("rebalance", "say one of --plan, --apply, --cancel");
  }
  RebalanceLimits limits;
  const char* const end = words.limit.data() + words.limit.size();
  const auto [read, fault] = std::from_chars(words.limit.data(), end, limits.limit);
  if (fault != std::errc() || read != end || !(limits.limit >= 1.01 && limits.limit <= 100)) {
    return wrong_usage("rebalance", "--limit: \"" + words.limit + "\" is not between 1.01 and 100");
  }
  limits.by = words.by == "bytes"     ? RebalanceBy::kBytes
              : words.by == "watches" ? RebalanceBy::kWatches
                                      : RebalanceBy::kObjects;
  limits.most_moves = words.most_moves;
  limits.across = words.across;
  const Expected<void> done = run(words, limits);
  return done ? 0 : complain("rebalance", done.error(), 1);
}

}  // namespace kintsugi::cmd
