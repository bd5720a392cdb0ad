#include "cmd/kintsugi/commands.h"

namespace kintsugi::cmd {

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"up", "a whole installation on this machine: a proxy and shards", run_up, up_about},
      {"proxy", "the front proxy", run_proxy, proxy_about},
      {"shard", "an embedded shard", run_shard, shard_about},
      {"ws", "the workspace that a kubeconfig points to: show, change, create, list, delete",
       run_ws, ws_about},
      {"store", "backup, restore and repair of a shard's data", run_store, store_about},
      {"completion", "lets bash or zsh complete commands and options", run_completion,
       completion_about},
      {"metrics-document", nullptr, run_metrics_document, metrics_document_about},
  };
  return kCommands;
}

int wrong_usage(const std::string& command, const std::string& text, int status) {
  const bool asks = text.ends_with('?');
  return complain(command,
                  asks ? text : text + "; `kintsugi " + command + " --help` lists the options",
                  status);
}

}  // namespace kintsugi::cmd
