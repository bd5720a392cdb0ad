#include "controlplane/clusters/cluster_access.h"

#include <utility>

#include "controlplane/internal/names.h"
#include "krm/path_prefixes.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kCollection = "/apis/core.kcp.io/v1alpha1/logicalclusters";
constexpr Duration kCallTimeout = seconds(5);
constexpr Duration kProbeTimeout = seconds(1);

std::string collection(const std::string& cluster) {
  return krm::cluster_root(cluster) + std::string(kCollection);
}
std::string item(const std::string& cluster) {
  return collection(cluster) + "/" + std::string(kClusterName);
}

net::FetchRequest request(const char* method, std::string target, std::string body = {}) {
  net::FetchRequest out;
  out.method = method;
  out.target = std::move(target);
  out.headers.add("accept", "application/json");
  out.headers.add("user-agent", "kintsugi-workspace-scheduler");
  if (!body.empty()) {
    out.headers.add("content-type", "application/json");
  }
  out.body = std::move(body);
  out.timeout = kCallTimeout;
  out.kind = out.method == "GET" ? net::UpstreamClass::kRead : net::UpstreamClass::kWrite;
  return out;
}

Error refused(const net::FetchResponse& response) {
  const Expected<Json> status = Json::parse(response.body);
  std::string text =
      status ? std::string(status->text({"message"})) : std::string("the answer is no Status");
  return Error(response.status == 409 ? Errc::kConflict : Errc::kUnavailable,
               std::to_string(response.status) + ": " + std::move(text));
}

bool is_reason(const net::FetchResponse& response, std::string_view reason) {
  const Expected<Json> status = Json::parse(response.body);
  return status && status->text({"reason"}) == reason;
}

}  // namespace

ShardClusterAccess::ShardClusterAccess(net::Loop& loop, apiserver::ApiServer& server,
                                       std::string own, PeerShards& peers)
    : loop_(loop), server_(server), own_(std::move(own)), peers_(peers) {}

void ShardClusterAccess::later(std::function<void()> function) {
  loop_.post([alive = alive_.weak(), function = std::move(function)] {
    if (alive) {
      function();
    }
  });
}

void ShardClusterAccess::local(apiserver::ApiServer::WriteRequest message, Done done) {
  message.group = kCoreGroup;
  message.resource = kLogicalClusters;
  message.name = kClusterName;
  message.manager = "kintsugi-workspace-scheduler";
  message.skip_admission = true;
  message.fence = fence_;
  server_.write(std::move(message),
                [alive = alive_.weak(), done = std::move(done)](Expected<Json> result) {
                  if (!alive) {
                    return;
                  }
                  if (result) {
                    done({});
                  } else {
                    done(fail(std::move(result.error())));
                  }
                });
}

void ShardClusterAccess::get(const std::string& shard, const std::string& cluster, Got done) {
  if (shard == own_) {
    later([this, cluster, done = std::move(done)] {
      if (has_left_ && has_left_(cluster)) {
        done(fail(Errc::kUnavailable, "the logical cluster has moved"));
        return;
      }
      done(server_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName));
    });
    return;
  }
  peers_.send(shard, request("GET", item(cluster)),
              [done = std::move(done)](Expected<net::FetchResponse> answer) {
                if (!answer) {
                  done(fail(std::move(answer.error())));
                } else if (answer->status == 404 && is_reason(*answer, "NotFound")) {
                  done(std::optional<Json>());
                } else if (answer->status != 200) {
                  done(fail(refused(*answer)));
                } else if (Expected<Json> object = Json::parse(answer->body); !object) {
                  done(fail(std::move(object.error())));
                } else {
                  done(std::optional<Json>(std::move(*object)));
                }
              });
}

void ShardClusterAccess::create(const std::string& shard, const std::string& cluster, Json object,
                                Done done) {
  if (shard == own_) {
    apiserver::ApiServer::WriteRequest message;
    message.cluster = cluster;
    message.what = apiserver::ApiServer::CreateObject{std::move(object)};
    local(std::move(message), std::move(done));
    return;
  }
  peers_.send(shard, request("POST", collection(cluster), object.dump()),
              [done = std::move(done)](Expected<net::FetchResponse> answer) {
                if (!answer) {
                  done(fail(std::move(answer.error())));
                } else if (answer->status == 409 && is_reason(*answer, "AlreadyExists")) {
                  done(fail(Errc::kAlreadyExists));
                } else if (answer->status != 201) {
                  done(fail(refused(*answer)));
                } else {
                  done({});
                }
              });
}

void ShardClusterAccess::remove(const std::string& shard, const std::string& cluster,
                                const std::string& uid, Done done) {
  const auto gone = [](Errc code) { return code == Errc::kNotFound || code == Errc::kConflict; };
  if (shard == own_) {
    apiserver::ApiServer::WriteRequest message;
    message.cluster = cluster;
    message.what = apiserver::ApiServer::DeleteObject{uid};
    local(std::move(message), [gone, done = std::move(done)](Expected<void> result) {
      if (!result && gone(result.error().code())) {
        result = {};
      }
      done(std::move(result));
    });
    return;
  }
  const Json options = Json::object({{"apiVersion", "v1"},
                                     {"kind", "DeleteOptions"},
                                     {"preconditions", Json::object({{"uid", Json(uid)}})}});
  peers_.send(shard, request("DELETE", item(cluster), options.dump()),
              [done = std::move(done)](Expected<net::FetchResponse> answer) {
                if (!answer) {
                  done(fail(std::move(answer.error())));
                } else if (answer->status == 200 || answer->status == 202 ||
                           answer->status == 409 ||
                           (answer->status == 404 && is_reason(*answer, "NotFound"))) {
                  done({});
                } else {
                  done(fail(refused(*answer)));
                }
              });
}

void ShardClusterAccess::probe(const std::string& shard, std::function<void(bool up)> done) {
  if (shard == own_) {
    later([done = std::move(done)] { done(true); });
    return;
  }
  net::FetchRequest message = request("GET", "/readyz");
  message.timeout = kProbeTimeout;
  peers_.send(shard, std::move(message),
              [done = std::move(done)](Expected<net::FetchResponse> answer) {
                done(answer && answer->status == 200);
              });
}

}  // namespace kintsugi::controlplane
