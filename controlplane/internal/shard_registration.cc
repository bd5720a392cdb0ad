#include "controlplane/internal/shard_registration.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controlplane/internal/names.h"
#include "krm/path_prefixes.h"
#include "krm/replica_urls.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kFirstRetry = milliseconds(20);
constexpr Duration kLastRetry = seconds(5);
constexpr Duration kPatience = seconds(2);  ///< of readiness with a root that does not answer

std::string collection() {
  return std::string(krm::kRootClusterPath) + "/apis/core.kcp.io/v1alpha1/shards";
}

net::FetchRequest request(const char* method, std::string target, std::string body = {}) {
  net::FetchRequest out;
  out.method = method;
  out.target = std::move(target);
  out.headers.add("accept", "application/json");
  out.headers.add("user-agent", "kintsugi-shard");
  if (!body.empty()) {
    out.headers.add("content-type", "application/json");
  }
  out.body = std::move(body);
  out.timeout = seconds(5);
  return out;
}

}  // namespace

std::optional<Json> wanted_shard(const ShardSelf& self, const Json* present) {
  Json shard = present != nullptr
                   ? *present
                   : Json::object({{"apiVersion", "core.kcp.io/v1alpha1"}, {"kind", "Shard"}});
  shard.make({"metadata", "name"}) = self.name;
  shard.make({"metadata", "labels", "name"}) = self.name;
  for (const auto& [key, value] : self.labels) {
    if (shard.at({"metadata", "labels", key}) == nullptr) {
      shard.make({"metadata", "labels", key}) = value;
    }
  }
  const std::string external = self.external_url.empty() ? self.base_url : self.external_url;
  shard.make({"spec", "baseURL"}) = self.base_url;
  shard.make({"spec", "externalURL"}) = external;
  shard.make({"spec", "virtualWorkspaceURL"}) =
      self.services_url.empty() ? self.base_url : self.services_url;
  std::string replicas;
  for (const std::string& url : self.replica_urls) {
    replicas.append(replicas.empty() ? "" : ",").append(url);
  }
  if (!replicas.empty()) {
    shard.make({"metadata", "annotations", krm::kReplicaUrlsAnnotation}) = replicas;
  } else if (shard.at({"metadata", "annotations", krm::kReplicaUrlsAnnotation}) != nullptr) {
    shard.make({"metadata", "annotations"}).erase(krm::kReplicaUrlsAnnotation);
  }
  if (present != nullptr && shard == *present) {
    return std::nullopt;
  }
  return shard;
}

ShardRegistration::ShardRegistration(net::Loop& loop, ShardSelf self, apiserver::ApiServer* server,
                                     std::function<net::Upstream*()> root)
    : loop_(loop),
      self_(std::move(self)),
      server_(server),
      root_(std::move(root)),
      timer_(loop),
      begun_(loop.now()) {}

bool ShardRegistration::settled() const noexcept {
  return registered_ || loop_.now() - begun_ > kPatience;
}

void ShardRegistration::set_replicas(std::vector<std::string> urls) {
  if (urls != self_.replica_urls) {
    self_.replica_urls = std::move(urls);
    if (started_) {
      kick();
    }
  }
}

void ShardRegistration::kick() {
  started_ = true;
  failures_ = 0;
  timer_.start(Duration(0), [this] { attempt(); });
}

void ShardRegistration::stop() {
  timer_.cancel();
  call_.reset();
  alive_.end();
}

void ShardRegistration::finish(bool ok, std::string_view cause) {
  registered_ = ok;
  if (ok) {
    log_info("shard registered", {{"shard", self_.name}, {"url", self_.base_url}});
    return;
  }
  if (failures_ == 5) {
    log_warn("shard cannot register yet", {{"cause", cause}});
  }
  const Duration pause =
      std::min<Duration>(kLastRetry, kFirstRetry * (1LL << std::min(failures_, 10U)));
  ++failures_;
  timer_.start(pause, [this] { attempt(); });
}

void ShardRegistration::attempt() {
  if (server_ != nullptr) {
    attempt_local();
  } else {
    attempt_remote();
  }
}

void ShardRegistration::attempt_local() {
  const std::optional<Json> present =
      server_->reader().get(kRootCluster, kCoreGroup, kShards, "", self_.name);
  std::optional<Json> wanted = wanted_shard(self_, present ? &*present : nullptr);
  if (!wanted) {
    finish(true, {});
    return;
  }
  apiserver::ApiServer::WriteRequest message;
  message.cluster = kRootCluster;
  message.group = kCoreGroup;
  message.resource = kShards;
  message.name = self_.name;
  if (present) {
    message.what = apiserver::ApiServer::UpdateObject{std::move(*wanted)};
  } else {
    message.what = apiserver::ApiServer::CreateObject{std::move(*wanted)};
  }
  message.manager = "kintsugi-shard";
  message.skip_admission = true;
  message.fence = self_.fence;
  server_->write(std::move(message), [this, alive = alive_.weak()](Expected<Json> stored) {
    if (!alive) {
      return;
    }
    finish(stored.has_value(), stored ? std::string() : stored.error().to_string());
  });
}

void ShardRegistration::attempt_remote() {
  net::Upstream* root = root_();
  if (root == nullptr) {
    finish(false, "the root shard is not known");
    return;
  }
  call_ = net::fetch(loop_, *root, request("GET", collection() + "/" + self_.name),
                     [this](Expected<net::FetchResponse> answer) {
                       loop_.defer([call = std::move(call_)] { (void)call; });
                       if (!answer) {
                         finish(false, answer.error().to_string());
                       } else if (answer->status == 404) {
                         write_remote(std::nullopt);
                       } else if (Expected<Json> object = Json::parse(answer->body);
                                  answer->status == 200 && object) {
                         write_remote(std::move(*object));
                       } else {
                         finish(false, "root answers " + std::to_string(answer->status));
                       }
                     });
}

void ShardRegistration::write_remote(std::optional<Json> present) {
  const std::optional<Json> wanted = wanted_shard(self_, present ? &*present : nullptr);
  if (!wanted) {
    finish(true, {});
    return;
  }
  net::Upstream* root = root_();
  if (root == nullptr) {
    finish(false, "the root shard is not known");
    return;
  }
  const std::string target = present ? collection() + "/" + self_.name : collection();
  net::FetchRequest message = request(present ? "PUT" : "POST", target, wanted->dump());
  message.kind = net::UpstreamClass::kWrite;
  call_ = net::fetch(loop_, *root, std::move(message), [this](Expected<net::FetchResponse> answer) {
    loop_.defer([call = std::move(call_)] { (void)call; });
    const bool ok = answer && (answer->status == 200 || answer->status == 201);
    finish(ok,
           answer ? "root answers " + std::to_string(answer->status) : answer.error().to_string());
  });
}

}  // namespace kintsugi::controlplane
