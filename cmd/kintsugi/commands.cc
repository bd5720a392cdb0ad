#include "cmd/kintsugi/commands.h"

#include <cstdio>
#include <utility>

namespace kintsugi::cmd {

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"up", "a whole installation on this machine: a proxy and shards", run_up, up_about},
      {"proxy", "the front proxy", run_proxy, proxy_about},
      {"shard", "an embedded shard", run_shard, shard_about},
      {"worker", "controllers behind the proxy, by their roles", run_worker, worker_about},
      {"delivery-hub", "manifests for workers of the role delivery, and what became of them",
       run_delivery_hub, delivery_hub_about},
      {"dispatcher", "records of Kafka delivered as CloudEvents, as the contract of a pod says",
       run_dispatcher, dispatcher_about},
      {"ws", "the workspace that a kubeconfig points to: show, change, create, list, delete",
       run_ws, ws_about},
      {"get", "what a running proxy knows: shards, streams, routes, slices, workers", run_get,
       get_about},
      {"explain", "where a request goes, and why", run_explain, explain_about},
      {"log-level", "what a running proxy logs, for a while", run_log_level, log_level_about},
      {"support-bundle", "what somebody who helps asks for first, in one file; no secrets",
       run_support_bundle, support_bundle_about},
      {"store", "backup, restore and repair of a shard's data", run_store, store_about},
      {"backup", "copies a whole installation while it runs", run_backup, backup_about},
      {"restore", "makes an installation of a backup", run_restore, restore_about},
      {"rebalance", "spreads logical clusters over shards: a plan first, then its moves",
       run_rebalance, rebalance_about},
      {"token", "by which shards and proxies join an installation: create, list, revoke", run_token,
       token_about},
      {"join", "joins an installation with a token, for `kintsugi shard` or `kintsugi proxy`",
       run_join, join_about},
      {"pki", "certificate authorities of an installation: replaced while it runs", run_pki,
       pki_about},
      {"keys", "keys of continue tokens and TLS session tickets: replaced while proxies run",
       run_keys, keys_about},
      {"config", "what configurations may say: JSON Schema, environment variables", run_config,
       config_about},
      {"completion", "lets bash, zsh or fish complete commands and options", run_completion,
       completion_about},
      {"version", "what was built: version, commit, libraries", run_version, version_about},
      {"manual-pages", nullptr, run_manual_pages, manual_pages_about},
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

tl::expected<std::vector<std::string>, int> take_arguments(
    const std::string& command, const FlagTable& table, CommandAbout (*about)(),
    const std::vector<std::string>& arguments) {
  auto parsed = parse_flags(table, arguments);
  if (!parsed) {
    return tl::unexpected(wrong_usage(command, std::string(parsed.error().message())));
  }
  if (parsed->help) {
    std::fputs(help_text(about()).c_str(), stdout);
    return tl::unexpected(0);
  }
  return std::move(parsed->positional);
}

std::optional<int> take_options(const std::string& command, const FlagTable& table,
                                CommandAbout (*about)(),
                                const std::vector<std::string>& arguments) {
  const auto words = take_arguments(command, table, about, arguments);
  if (!words) {
    return words.error();
  }
  if (!words->empty()) {
    return complain(command, "unexpected argument \"" + words->front() + "\"", 2);
  }
  return std::nullopt;
}

}  // namespace kintsugi::cmd
