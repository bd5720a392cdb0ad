#include "controlplane/moves/move_book.h"

#include <charconv>
#include <utility>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "auth/own_roles.h"
#include "base/time.h"
#include "controlplane/clusters/server_facts.h"
#include "controlplane/internal/names.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::int64_t kTokensLive = 15 * 60;  // [s] a continue token of before may still come
constexpr std::int64_t kNewsTake = 60;         // [s]
constexpr std::string_view kMigrated = "logical cluster is being migrated";
constexpr std::string_view kRelist =
    "logical cluster is being migrated to another shard; relist required";

std::string_view plural_of(std::string_view resource) {
  return resource.substr(0, resource.find('.'));
}

store::Revision number_of(std::string_view text) {
  store::Revision out = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc() && end == text.data() + text.size() ? out : 0;
}

Error relist() {
  Error error(Errc::kExpired, std::string(kRelist));
  return error;
}

}  // namespace

std::string move_key(std::string_view resource, std::string_view cluster) {
  return apiserver::object_key(resource, kMovesCluster, "", cluster).value_or("");
}

Fence read_fence(const Json& row) {
  const Json* left = row.find("left");
  const Json* at = row.find("at");
  return {std::string(row.text({"migration"})), std::string(row.text({"to"})),
          left != nullptr && left->as_bool(), at == nullptr ? 0 : at->as_integer()};
}

Arrival read_arrival(const Json& row) {
  const Json* at = row.find("at");
  const Json* settled = row.find("settled");
  const Json* revision = row.find("revision");
  return {std::string(row.text({"migration"})),
          std::string(row.text({"from"})),
          std::string(row.text({"phase"})),
          at == nullptr ? 0 : at->as_integer(),
          revision == nullptr ? apiserver::revision_of(row)
                              : static_cast<store::Revision>(revision->as_integer()),
          settled != nullptr && settled->as_bool()};
}

void MoveBook::start(apiserver::ApiServer& server,
                     std::function<void(std::string_view cluster)> closed) {
  closed_ = std::move(closed);
  subscriptions_.push_back(server.on_change(kFactsGroup, plural_of(kFences),
                                            [this](const apiserver::ApiServer::Change& change) {
                                              note_fence(change.name, change.object.get());
                                            }));
  subscriptions_.push_back(server.on_change(
      kFactsGroup, plural_of(kArrivals), [this](const apiserver::ApiServer::Change& change) {
        note_arrival(change.name, change.object.get(), change.revision);
      }));
  server.reader().list(kMovesCluster, kFactsGroup, plural_of(kFences), "", [this](const Json& row) {
    note_fence(row.text({"metadata", "name"}), &row);
    return true;
  });
  server.reader().list(
      kMovesCluster, kFactsGroup, plural_of(kArrivals), "", [this](const Json& row) {
        note_arrival(row.text({"metadata", "name"}), &row, apiserver::revision_of(row));
        return true;
      });
}

void MoveBook::note_fence(std::string_view cluster, const Json* row) {
  if (row == nullptr) {
    if (const auto known = fences_.find(cluster); known != fences_.end()) {
      fences_.erase(known);
    }
    return;
  }
  const bool is_new = fences_.find(cluster) == fences_.end();
  fences_.insert_or_assign(std::string(cluster), read_fence(*row));
  if (is_new && closed_) {
    closed_(cluster);
  }
}

void MoveBook::note_arrival(std::string_view cluster, const Json* row, store::Revision revision) {
  if (row == nullptr) {
    if (const auto known = arrivals_.find(cluster); known != arrivals_.end()) {
      arrivals_.erase(known);
    }
    return;
  }
  Arrival arrival = read_arrival(*row);
  arrival.revision = arrival.settled ? arrival.revision : revision;
  arrivals_.insert_or_assign(std::string(cluster), std::move(arrival));
}

const Fence* MoveBook::fence(std::string_view cluster) const {
  const auto found = fences_.find(cluster);
  return found == fences_.end() ? nullptr : &found->second;
}

const Arrival* MoveBook::arrival(std::string_view cluster) const {
  const auto found = arrivals_.find(cluster);
  return found == arrivals_.end() ? nullptr : &found->second;
}

bool MoveBook::has_just_left(std::string_view cluster) const {
  const Fence* known = fences_.empty() ? nullptr : fence(cluster);
  return known != nullptr && known->left && unix_seconds() < known->at + kNewsTake;
}

std::vector<std::string> MoveBook::departed() const {
  std::vector<std::string> out;
  for (const auto& [cluster, fence] : fences_) {
    if (fence.left) {
      out.push_back(cluster);
    }
  }
  return out;
}

Expected<void> MoveBook::check(std::string_view cluster, const http::RequestHead& head,
                               std::string_view rest, const auth::UserInfo& user) const {
  const Fence* closed = fences_.empty() ? nullptr : fence(cluster);
  const Arrival* came = arrivals_.empty() ? nullptr : arrival(cluster);
  if (closed == nullptr && (came == nullptr || came->phase != "arrived")) {
    return {};
  }
  const krm::RequestInfo info = krm::parse_request_info(head.method, rest);
  const bool reads = info.is_resource && (info.verb == "list" || info.verb == "watch");
  const std::string_view version = info.query.get("resourceVersion").value_or("");
  const bool has_version = !version.empty() && version != "0";
  if (closed != nullptr) {
    const bool may_pass = user.in_group(auth::kGroupExternalLogicalClusterAdmin) ||
                          user.in_group(auth::kGroupOwnShard);
    if (may_pass && !closed->left) {
      return {};
    }
    if (may_pass && info.resource == kClusterDumps) {
      return {};
    }
    if (reads && has_version) {
      return fail(relist());
    }
    return fail(krm::unavailable(std::string(kMigrated), 1));
  }
  if (!reads) {
    return {};
  }
  const bool resumes = info.verb == "watch" ||
                       info.query.get("resourceVersionMatch").value_or("") == "Exact" ||
                       !info.query.get("limit").value_or("").empty();
  const bool is_old = has_version && number_of(version) < came->revision;
  const bool continues =
      !info.query.get("continue").value_or("").empty() && unix_seconds() < came->at + kTokensLive;
  if ((is_old && resumes) || continues) {
    return fail(relist());
  }
  return {};
}

apiserver::ClusterResolver MoveBook::wrap(apiserver::ClusterResolver clusters) const {
  return [this, clusters = std::move(clusters)](
             const http::RequestHead& head,
             const auth::UserInfo& user) -> Expected<std::optional<apiserver::ClusterTarget>> {
    Expected<std::optional<apiserver::ClusterTarget>> target = clusters(head, user);
    if (fences_.empty() && arrivals_.empty()) {
      return target;
    }
    if (target && *target) {
      if (Expected<void> open = check((*target)->name, head, (*target)->rest, user); !open) {
        return fail(std::move(open.error()));
      }
      return target;
    }
    // What has left is unknown here, and not to be told so before everybody knows where it went.
    const std::optional<krm::ClusterPath> path = krm::split_cluster_path(head.target);
    if (!target && path && fence(path->segment) != nullptr) {
      if (Expected<void> open = check(path->segment, head, path->rest, user); !open) {
        return fail(std::move(open.error()));
      }
    }
    return target;
  };
}

}  // namespace kintsugi::controlplane
