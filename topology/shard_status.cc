#include "topology/shard_status.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/time.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

constexpr Duration kEvery = milliseconds(200);
constexpr std::string_view kGroup = "core.kcp.io";
constexpr std::string_view kShards = "shards";
constexpr std::string_view kRoot = "root";

bool is_refusal(const Feed::ResourceStatus& resource) {
  return resource.last_status == 401 || resource.last_status == 403;
}

std::string cause_of(const Feed::ResourceStatus& resource) {
  return resource.last_cause != Errc::kOk ? std::string(errc_name(resource.last_cause))
         : resource.last_status != 0      ? "HTTP " + std::to_string(resource.last_status)
                                          : "not answered yet";
}

Condition ready_of(const Feed::ShardStatus& shard) {
  const auto any = [&](const auto& test) {
    return std::any_of(std::begin(shard.resources), std::end(shard.resources), test);
  };
  const auto all = [&](const auto& test) {
    return std::all_of(std::begin(shard.resources), std::end(shard.resources), test);
  };
  if (!shard.up) {
    const bool certificate = shard.cause == errc_name(Errc::kTls);
    return {"Ready", "False", certificate ? "CertificateInvalid" : "Unreachable", "Error",
            shard.cause};
  }
  // One kind may be refused for reasons of its own; nobody is let in when 401 is said or all are.
  if (any([](const auto& one) { return one.last_status == 401; }) || all(is_refusal)) {
    return {"Ready", "False", "Unauthorized", "Error",
            "the shard refuses the credentials of the proxy"};
  }
  if (any([](const auto& one) { return one.last_status != 0 || one.synced; })) {
    return {.type = "Ready"};
  }
  if (!shard.cause.empty() && all([](const auto& one) { return one.failures == 0; })) {
    return {"Ready", "False", "Unreachable", "Error", shard.cause};  // no URL that could be asked
  }
  return {"Ready", "Unknown", "NotProbed", "", "no answer of the shard yet"};
}

Condition synced_of(const Feed::ShardStatus& shard) {
  for (std::size_t i = 0; i < kResources; ++i) {
    if (!shard.resources[i].synced) {
      return {"Synced", "False", "Syncing", "Info",
              std::string(resource_name(static_cast<Resource>(i))) + ": " +
                  cause_of(shard.resources[i])};
    }
  }
  return {.type = "Synced"};
}

}  // namespace

std::vector<Condition> shard_conditions(const Feed::ShardStatus& shard) {
  return {ready_of(shard), synced_of(shard)};
}

ShardStatusKeeper::ShardStatusKeeper(net::Loop& loop, Objects& objects,
                                     std::function<std::vector<Feed::ShardStatus>()> shards)
    : objects_(objects), shards_(std::move(shards)), timer_(loop) {
  timer_.start(kEvery, [this] { look(); });
}

void ShardStatusKeeper::look() {
  std::set<std::string> there;
  for (const Feed::ShardStatus& shard : shards_()) {
    there.insert(shard.name);
    std::vector<Condition> wanted = shard_conditions(shard);
    std::string text;
    for (const Condition& condition : wanted) {
      text += condition.type + "=" + condition.status + "/" + condition.reason + ";";
    }
    std::string& said = said_[shard.name];
    if (said != text) {
      said = text;
      write(shard.name, std::move(wanted), std::move(text));
    }
  }
  std::erase_if(said_, [&](const auto& entry) { return !there.contains(entry.first); });
  timer_.start(kEvery, [this] { look(); });
}

void ShardStatusKeeper::write(const std::string& name, std::vector<Condition> wanted,
                              std::string said) {
  auto shard = objects_.get(kRoot, kGroup, kShards, name);
  if (!shard) {
    said_.erase(name);
    return;
  }
  const Json* old = shard->find("status");
  Json status = old != nullptr && old->is_object() ? *old : Json::object();
  const Json* before = old != nullptr ? old->find("conditions") : nullptr;
  // What was said before a restart is not said again.
  std::string present;
  static const Json kNone = Json::array();
  for (const Json& one : (before != nullptr ? *before : kNone).items()) {
    present += std::string(one.text({"type"})) + "=" + std::string(one.text({"status"})) + "/" +
               std::string(one.text({"reason"})) + ";";
  }
  if (present == said) {
    return;
  }
  status["conditions"] = render_conditions(std::move(wanted), before, rfc3339(unix_seconds()));
  (*shard)["status"] = std::move(status);
  ++writes_;
  objects_.update(kRoot, kGroup, kShards, "status", std::move(*shard),
                  [this, name](const Expected<Json>& result) {
                    if (!result) {
                      said_.erase(name);  // again at the next look
                    }
                  });
}

}  // namespace kintsugi::topology
