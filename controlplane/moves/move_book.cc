#include "controlplane/moves/move_book.h"

#include <charconv>
#include <utility>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "auth/own_roles.h"
#include "base/time.h"
#include "controlplane/clusters/server_facts.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/internal/move_rows.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "serving/moving.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::int64_t kTokensLive = 15 * 60;  // [s] a continue token of before may still come
constexpr std::int64_t kNewsTake = 60;         // [s]
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

Error being_migrated() { return krm::unavailable(std::string(serving::kMovingText), 1); }

std::string move_key(std::string_view resource, std::string_view cluster) {
  return apiserver::object_key(resource, kMovesCluster, "", cluster).value_or("");
}

Fence read_fence(const Json& row) {
  const auto flag = [&](std::string_view member) {
    const Json* value = row.find(member);
    return value != nullptr && value->as_bool();
  };
  Fence out;
  out.migration = row.text({"migration"});
  out.to = row.text({"to"});
  out.ends = flag("ends");
  out.left = flag("left");
  out.moved = out.left || flag("moved");
  out.at = integer_of(row, "at");
  return out;
}

Arrival read_arrival(const Json& row) {
  const Json* settled = row.find("settled");
  const Json* revision = row.find("revision");
  const Json* resume = row.find("resume");
  Arrival out;
  out.migration = row.text({"migration"});
  out.from = row.text({"from"});
  out.phase = row.text({"phase"});
  out.at = integer_of(row, "at");
  out.revision = revision == nullptr ? apiserver::revision_of(row)
                                     : static_cast<store::Revision>(revision->as_integer());
  out.begins = static_cast<store::Revision>(integer_of(row, "begins"));
  out.settled = settled != nullptr && settled->as_bool();
  for (const krm::JsonMember& one : resume == nullptr ? Json::Object() : resume->members()) {
    out.resume.emplace(one.key, static_cast<store::Revision>(one.value.as_integer()));
  }
  return out;
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
  const auto known = fences_.find(cluster);
  const bool was_moved = known != fences_.end() && known->second.moved;
  Fence fence = read_fence(*row);
  const bool is_moved = fence.moved;
  fences_.insert_or_assign(std::string(cluster), std::move(fence));
  if (is_moved && !was_moved && closed_) {
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

Expected<void> MoveBook::check_fence(const Fence& closed, std::string_view cluster,
                                     const krm::RequestInfo& info,
                                     const auth::UserInfo& user) const {
  const bool may_pass =
      user.in_group(auth::kGroupExternalLogicalClusterAdmin) || user.in_group(auth::kGroupOwnShard);
  if (may_pass && (!closed.left || info.resource == kClusterDumps)) {
    return {};
  }
  const bool reads =
      !info.is_resource || info.verb == "get" || info.verb == "list" || info.verb == "watch";
  if (reads && !closed.moved && closed.ends) {
    // Nobody else takes writes before this row says so, which this loop may hear a moment later.
    const auto row = store_.get(move_key(kFences, cluster));
    const auto json = row ? apiserver::decode_stored(row->value.view(), "", "", row->modified)
                          : fail(Errc::kNotFound);
    if (json ? !read_fence(*json).moved : json.error().code() == Errc::kNotFound) {
      return {};
    }
  }
  return fail(being_migrated());
}

Expected<store::Revision> MoveBook::check(std::string_view cluster, const http::RequestHead& head,
                                          std::string_view rest, const auth::UserInfo& user) const {
  const Fence* closed = fences_.empty() ? nullptr : fence(cluster);
  const Arrival* came = arrivals_.empty() ? nullptr : arrival(cluster);
  if (closed == nullptr && (came == nullptr || came->phase != "arrived")) {
    return store::Revision{0};
  }
  const krm::RequestInfo info = krm::parse_request_info(head.method, rest);
  if (closed != nullptr) {
    if (Expected<void> open = check_fence(*closed, cluster, info, user); !open) {
      return fail(std::move(open.error()));
    }
    return store::Revision{0};
  }
  const bool watches = info.is_resource && info.verb == "watch" &&
                       info.query.get("sendInitialEvents").value_or("") != "true";
  if (!watches && (!info.is_resource || info.verb != "list")) {
    return store::Revision{0};
  }
  const std::string_view text = info.query.get("resourceVersion").value_or("");
  const store::Revision version = number_of(text);
  const bool is_old = !text.empty() && text != "0" && version < came->revision;
  if (watches && is_old) {
    const auto from = came->resume.find(info.qualified_resource());
    if (from == came->resume.end() || version < from->second) {
      return fail(relist());
    }
    return came->begins != 0 ? came->begins : came->revision - 1;
  }
  const bool resumes = info.query.get("resourceVersionMatch").value_or("") == "Exact" ||
                       !info.query.get("limit").value_or("").empty();
  const bool continues =
      !info.query.get("continue").value_or("").empty() && unix_seconds() < came->at + kTokensLive;
  if ((is_old && resumes) || continues) {
    return fail(relist());
  }
  return store::Revision{0};
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
      Expected<store::Revision> begins = check((*target)->name, head, (*target)->rest, user);
      if (!begins) {
        return fail(std::move(begins.error()));
      }
      (*target)->watch_after = *begins;
      return target;
    }
    // What has left is unknown here, and not to be told so before everybody knows where it went.
    const std::optional<krm::ClusterPath> path = krm::split_cluster_path(head.target);
    if (!target && path && fence(path->segment) != nullptr) {
      if (auto open = check(path->segment, head, path->rest, user); !open) {
        return fail(std::move(open.error()));
      }
    }
    return target;
  };
}

}  // namespace kintsugi::controlplane
