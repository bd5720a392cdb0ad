#include "server/internal/role_installer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/version.h"
#include "krm/path_prefixes.h"
#include "net/tls.h"
#include "server/internal/up_files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr Duration kFirstPause = milliseconds(20), kLastPause = milliseconds(500);
/// For a shard that another one runs.
constexpr Duration kShortPatience = seconds(2);
constexpr std::string_view kShards = "/apis/core.kcp.io/v1alpha1/shards";
constexpr const char* kApply = "?fieldManager=kintsugi-up&force=true";

/// A workspace that was just made is not known everywhere, and a server that starts knows little.
bool passes(const std::string& method, const Expected<net::FetchResponse>& response) {
  if (!response) {
    return true;
  }
  const int status = response->status;
  return status == 403 || status == 404 || status == 429 || status >= 500 ||
         (status == 409 && method == "PATCH");
}

Expected<Json> object_of(const std::string& what, const Expected<net::FetchResponse>& response) {
  if (!response) {
    return fail(response.error().clone().at(what));
  }
  Expected<Json> object = Json::parse(response->body);
  if (response->status < 300 && object) {
    return object;
  }
  const bool is_there = object && object->text({"reason"}) == "AlreadyExists";
  return fail(is_there ? Errc::kAlreadyExists : Errc::kInternal,
              what + ": HTTP " + std::to_string(response->status) + " " +
                  std::string(object ? object->text({"message"}) : std::string_view()));
}

bool contains(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

Expected<std::unique_ptr<RoleInstaller>> RoleInstaller::make(net::Loop& loop, Params params) {
  net::TlsParams tls;
  tls.ca_file = params.ca_file;
  tls.certificate_file = params.certificate_file;
  tls.key_file = params.key_file;
  auto context = net::TlsContext::client(tls);
  if (!context) {
    return fail(std::move(context.error()));
  }
  net::UpstreamParams upstream;
  upstream.url = params.proxy;
  upstream.tls = std::move(*context);
  upstream.max_connections = 1;
  std::unique_ptr<RoleInstaller> made(new RoleInstaller(loop, std::move(params)));
  made->upstream_ = net::Upstream::make(loop, std::move(upstream));
  return made;
}

net::Task<Expected<Json>> RoleInstaller::ask(std::string method, std::string target,
                                             std::string body, Duration patience) {
  const TimePoint end = Clock::now() + patience;
  Duration pause = kFirstPause;
  while (true) {
    net::FetchRequest request;
    request.method = method;
    request.timeout = std::min(request.timeout, patience);
    request.target = target;
    request.headers.add("accept", "application/json");
    request.headers.add("user-agent", std::string("kintsugi-up/") + product_version());
    if (!body.empty()) {
      request.headers.add("content-type",
                          method == "PATCH" ? "application/apply-patch+yaml" : "application/json");
      request.body = body;
    }
    net::Answer<Expected<net::FetchResponse>> answer;
    const auto call = net::fetch(loop_, *upstream_, std::move(request), answer.callback());
    Expected<net::FetchResponse> response = co_await answer;
    if (!passes(method, response) || Clock::now() >= end) {
      co_return object_of(method + " " + target, response);
    }
    co_await net::sleep(loop_, pause);
    pause = std::min(pause * 2, kLastPause);
  }
}

net::Task<Expected<void>> RoleInstaller::apply(std::string cluster, std::vector<Json> objects,
                                               Duration patience) {
  for (const Json& object : objects) {
    net::Task<Expected<Json>> asking =
        ask("PATCH", object_target(cluster, object) + kApply, object.dump(), patience);
    Expected<Json> applied = co_await asking;
    if (!applied) {
      co_return fail(std::move(applied.error()));
    }
  }
  co_return Expected<void>();
}

net::Task<Expected<void>> RoleInstaller::make_workspace(std::string parent, Json workspace) {
  net::Task<Expected<Json>> asking =
      ask("POST", collection_target(parent, workspace), workspace.dump(), params_.patience);
  Expected<Json> made = co_await asking;
  if (!made && made.error().code() != Errc::kAlreadyExists) {
    co_return fail(std::move(made.error()));
  }
  co_return Expected<void>();
}

net::Task<Expected<void>> RoleInstaller::await_workspace(std::string parent, Json workspace,
                                                         Duration patience) {
  const TimePoint end = Clock::now() + patience;
  const std::string target = object_target(parent, workspace);
  Duration pause = kFirstPause;
  while (true) {
    net::Task<Expected<Json>> asking = ask("GET", target, "", patience);
    Expected<Json> seen = co_await asking;
    if (!seen) {
      co_return fail(std::move(seen.error()));
    }
    if (seen->text({"status", "phase"}) == "Ready") {
      co_return Expected<void>();
    }
    if (Clock::now() >= end) {
      co_return fail(Errc::kTimeout, "GET " + target + ": it does not become ready");
    }
    co_await net::sleep(loop_, pause);
    pause = std::min(pause * 2, kLastPause);
  }
}

net::Task<Expected<std::vector<std::string>>> RoleInstaller::registered() {
  net::Task<Expected<Json>> asking =
      ask("GET", std::string(krm::kRootClusterPath).append(kShards), "", params_.patience);
  Expected<Json> list = co_await asking;
  if (!list) {
    co_return fail(std::move(list.error()));
  }
  std::vector<std::string> out;
  if (const Json* const items = list->find("items"); items != nullptr) {
    for (const Json& shard : items->items()) {
      const std::string_view name = shard.text({"metadata", "name"});
      if (!name.empty() && shard.text({"metadata", "labels", "name"}) == name) {
        out.emplace_back(name);
      }
    }
  }
  co_return out;
}

net::Task<Expected<std::vector<std::string>>> RoleInstaller::make_leases(
    RolePlan plan, std::vector<std::string> known) {
  const std::string parent = plan.names.provider();
  net::Task<Expected<std::vector<std::string>>> listing = registered();
  Expected<std::vector<std::string>> listed = co_await listing;
  if (!listed) {
    co_return listed;
  }
  std::vector<std::string> shards = params_.shards;
  for (const std::string& shard : *listed) {
    if (!contains(shards, shard)) {
      shards.push_back(shard);
    }
  }
  // First all are asked for: they become ready side by side.
  for (const std::string& shard : shards) {
    net::Task<Expected<void>> making =
        make_workspace(parent, workspace_on(RoleNames::leases(shard), shard));
    Expected<void> made = co_await making;
    if (!made) {
      co_return fail(std::move(made.error()));
    }
  }
  std::vector<std::string> served;
  for (const std::string& shard : shards) {
    const bool is_ours = contains(params_.shards, shard);
    if (!is_ours && contains(known, shard)) {
      served.push_back(shard);
      continue;
    }
    const Duration patience = is_ours ? params_.patience : kShortPatience;
    const std::string name = RoleNames::leases(shard);
    net::Task<Expected<void>> awaiting =
        await_workspace(parent, workspace_on(name, shard), patience);
    Expected<void> there = co_await awaiting;
    if (there) {
      net::Task<Expected<void>> applying = apply(parent + ":" + name, plan.in_leases, patience);
      there = co_await applying;
    }
    if (there) {
      served.push_back(shard);
    } else if (is_ours) {
      co_return fail(std::move(there.error()));
    } else {
      log_warn("workers do not serve a shard",
               {{"role", plan.names.role}, {"shard", shard}, {"err", there.error().to_string()}});
    }
  }
  co_return served;
}

net::Task<Expected<void>> RoleInstaller::make_targets(RolePlan plan) {
  for (const std::string& cluster : params_.targets) {
    const std::size_t colon = cluster.rfind(':');
    if (colon != std::string::npos) {
      const std::string parent = cluster.substr(0, colon);
      const Json workspace = workspace_named(cluster.substr(colon + 1));
      net::Task<Expected<void>> making = make_workspace(parent, workspace);
      Expected<void> made = co_await making;
      if (made) {
        net::Task<Expected<void>> awaiting = await_workspace(parent, workspace, params_.patience);
        made = co_await awaiting;
      }
      if (!made) {
        co_return made;
      }
    }
    net::Task<Expected<void>> allowing = apply(cluster, plan.in_targets, params_.patience);
    Expected<void> allowed = co_await allowing;
    if (!allowed) {
      co_return allowed;
    }
  }
  co_return Expected<void>();
}

net::Task<Expected<std::vector<std::string>>> RoleInstaller::install(
    RolePlan plan, std::vector<std::string> known) {
  net::Task<Expected<void>> allowing = apply("root", plan.in_root, params_.patience);
  Expected<void> done = co_await allowing;
  const Json provider = workspace_on(plan.names.role, shard_name(0));
  if (done) {
    net::Task<Expected<void>> making = make_workspace("root", provider);
    done = co_await making;
  }
  if (done) {
    net::Task<Expected<void>> awaiting = await_workspace("root", provider, params_.patience);
    done = co_await awaiting;
  }
  if (!done) {
    co_return fail(std::move(done.error()));
  }
  net::Task<Expected<std::vector<std::string>>> placing = make_leases(plan, std::move(known));
  Expected<std::vector<std::string>> served = co_await placing;
  if (!served) {
    co_return served;
  }
  if (plan.in_provider.empty()) {
    net::Task<Expected<void>> targeting = make_targets(plan);
    done = co_await targeting;
    if (!done) {
      co_return fail(std::move(done.error()));
    }
    co_return served;
  }
  std::vector<Json> objects = {partition_of_workers(*served)};
  objects.insert(objects.end(), plan.in_provider.begin(), plan.in_provider.end());
  net::Task<Expected<void>> applying =
      apply(plan.names.provider(), std::move(objects), params_.patience);
  done = co_await applying;
  for (const std::string& shard : *served) {
    if (!done || plan.in_pools.empty()) {
      break;
    }
    net::Task<Expected<void>> pooling = apply(
        plan.names.provider() + ":" + RoleNames::leases(shard), plan.in_pools, params_.patience);
    done = co_await pooling;
  }
  if (!done) {
    co_return fail(std::move(done.error()));
  }
  co_return served;
}

}  // namespace kintsugi::server
