#include "server/internal/exec_renewal.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "krm/yaml.h"
#include "server/files.h"
#include "server/internal/exec_plugin.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

constexpr Duration kLook = seconds(1);

}  // namespace

std::vector<std::string> kubeconfigs_of(const proxy::ProxyConfig& config) {
  std::vector<std::string> files = {
      config.topology.root_kubeconfig,     config.topology.shards_kubeconfig,
      config.topology.reviewed_kubeconfig, config.topology.fleet.kubeconfig,
      config.backend.kubeconfig,           config.authentication.webhook.kubeconfig,
      config.audit.webhook_kubeconfig};
  files.insert(files.end(), config.topology.peer_kubeconfigs.begin(),
               config.topology.peer_kubeconfigs.end());
  for (const proxy::ShardOverride& shard : config.shards) {
    files.push_back(shard.kubeconfig);
  }
  for (const proxy::StaticShard& shard : config.topology.shards) {
    files.push_back(shard.kubeconfig);
  }
  std::erase(files, std::string());
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

bool name_exec_plugins(const std::vector<std::string>& kubeconfigs) {
  return std::any_of(kubeconfigs.begin(), kubeconfigs.end(), [](const std::string& path) {
    const auto text = read_file(path);
    const auto document = text ? krm::parse_yaml(*text) : Expected<krm::Json>(krm::Json());
    const krm::Json* users = document ? document->find("users") : nullptr;
    return users != nullptr &&
           std::any_of(users->items().begin(), users->items().end(), [](const krm::Json& user) {
             const krm::Json* exec = user.at({"user", "exec"});
             return exec != nullptr && exec->is_object();
           });
  });
}

ExecRenewal::ExecRenewal(net::Loop& loop, std::function<bool()> is_refused,
                         std::function<void()> changed)
    : loop_(loop), is_refused_(std::move(is_refused)), changed_(std::move(changed)), timer_(loop) {
  look();
}

ExecRenewal::~ExecRenewal() {
  stop_exec_helper();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ExecRenewal::look() {
  timer_.start(kLook, [this] { look(); });
  const bool all = is_refused_();
  if (!works_ && exec_renewal_is_due(all)) {
    auto differs = std::make_shared<bool>(false);
    run([differs, all] { *differs = renew_exec_credentials(all); },
        [this, differs] {
          if (*differs) {
            changed_();
          }
        });
  }
}

void ExecRenewal::prepare(std::vector<std::string> kubeconfigs, std::function<void()> done) {
  run(
      [files = std::move(kubeconfigs)] {
        for (const std::string& file : files) {
          (void)read_kubeconfig(file, context_of(file), KubeServer::kOptional);
        }
      },
      std::move(done));
}

void ExecRenewal::run(std::function<void()> work, std::function<void()> after) {
  if (std::exchange(works_, true)) {
    waiting_.push_back(
        [this, work = std::move(work), after = std::move(after)] { run(work, after); });
    return;
  }
  if (thread_.joinable()) {
    thread_.join();  // it has said its last
  }
  thread_ = std::thread([this, work = std::move(work), after = std::move(after)] {
    work();
    loop_.post([this, after] {
      works_ = false;
      after();
      for (const auto& next : std::exchange(waiting_, {})) {
        next();
      }
    });
  });
}

}  // namespace kintsugi::server
