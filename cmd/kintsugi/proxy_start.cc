// What has to be there before the proxy learns the topology.
#include "base/log.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/files.h"
#include "cmd/kintsugi/proxy_control.h"

namespace kintsugi::cmd {
namespace {

constexpr Duration kFeedRetry = milliseconds(20);

}  // namespace

/// The kubeconfigs may not be there yet when the shards start at the same time.
void ProxyControl::try_feed() {
  const bool needs_files = config_.topology.source != "static";
  if ((has_root() && !file_exists(config_.topology.root_kubeconfig)) ||
      (needs_files && !file_exists(config_.topology.shards_kubeconfig))) {
    if (!waiting_logged_) {
      waiting_logged_ = true;
      log_info("waiting for the kubeconfigs", {{"root", config_.topology.root_kubeconfig}});
    }
    feed_timer_.start(kFeedRetry, [this] { try_feed(); });
    return;
  }
  const bool proven = backend_proven_ || config_.backend.kubeconfig.empty();
  if (auto result = proven ? start_feed() : check_backend(); !result) {
    log_error("topology cannot be learned", {{"error", result.error().to_string()}});
    feed_timer_.start(seconds(1), [this] { try_feed(); });
  }
}

Expected<void> ProxyControl::check_backend() {
  auto files = load_topology_files(config_);
  if (!files) {
    return fail(std::move(files.error()));
  }
  auto shard = upstream_to(files->root_server, backend_tls_.common);
  if (!shard) {
    return fail(std::move(shard.error()));
  }
  backend_check_ =
      std::make_unique<BackendCheck>(loop_, std::move(*shard), [this](Expected<void> result) {
        backend_check_.reset();
        if (!result) {
          complain("proxy",
                   config_.backend.kubeconfig + ": " + std::string(result.error().message()));
          exit_status_ = 1;
          loop_.stop();
          return;
        }
        backend_proven_ = true;
        try_feed();
      });
  return {};
}

}  // namespace kintsugi::cmd
