#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cmd/kintsugi/flags.h"
#include "server/program.h"

/// The subcommands. Each takes the arguments after its name and returns the exit status: 0 after an
/// orderly end, 1 with one line on stderr when something could not start, 2 for wrong usage.
namespace kintsugi::cmd {

/// Besides: 3 not ready in time.
int run_up(const std::vector<std::string>& arguments);
int run_proxy(const std::vector<std::string>& arguments);
/// The proxy under the name kcp-front-proxy.
int run_front_proxy(const std::vector<std::string>& arguments);
int run_shard(const std::vector<std::string>& arguments);
int run_worker(const std::vector<std::string>& arguments);
/// The hub of the role delivery. Besides: 3 time ran out.
int run_delivery_hub(const std::vector<std::string>& arguments);
/// The data plane of the role eventing.
int run_dispatcher(const std::vector<std::string>& arguments);
/// Joins an installation with a token: keys, certificates and CAs in a folder.
int run_join(const std::vector<std::string>& arguments);
/// Spreads logical clusters over shards.
int run_rebalance(const std::vector<std::string>& arguments);
int run_token(const std::vector<std::string>& arguments);
int run_pki(const std::vector<std::string>& arguments);
int run_keys(const std::vector<std::string>& arguments);
/// Ask a running proxy. Besides: 4 there is no such thing.
int run_get(const std::vector<std::string>& arguments);
int run_explain(const std::vector<std::string>& arguments);
/// What somebody who helps asks for first, in one file.
int run_support_bundle(const std::vector<std::string>& arguments);
int run_log_level(const std::vector<std::string>& arguments);
int run_store(const std::vector<std::string>& arguments);
/// Besides: 3 a backup was made, with reservations.
int run_backup(const std::vector<std::string>& arguments);
int run_restore(const std::vector<std::string>& arguments);
/// Besides: 3 time ran out, 4 no such workspace, 5 access denied.
int run_ws(const std::vector<std::string>& arguments);
/// Prints what a shell reads to complete command lines of this program.
int run_completion(const std::vector<std::string>& arguments);
int run_version(const std::vector<std::string>& arguments);
/// JSON Schema and variables of configurations.
int run_config(const std::vector<std::string>& arguments);
/// Writes a manual page for each command into a folder, for packages.
int run_manual_pages(const std::vector<std::string>& arguments);
/// Prints docs/metrics.md, for tools/check_metrics.py.
int run_metrics_document(const std::vector<std::string>& arguments);

/// @{ What they say of themselves.
CommandAbout up_about();
CommandAbout proxy_about();
CommandAbout shard_about();
CommandAbout worker_about();
CommandAbout delivery_hub_about();
CommandAbout dispatcher_about();
CommandAbout get_about();
CommandAbout explain_about();
CommandAbout support_bundle_about();
CommandAbout log_level_about();
CommandAbout store_about();
CommandAbout backup_about();
CommandAbout restore_about();
CommandAbout rebalance_about();
CommandAbout token_about();
CommandAbout join_about();
CommandAbout pki_about();
CommandAbout keys_about();
CommandAbout ws_about();
CommandAbout completion_about();
CommandAbout version_about();
CommandAbout config_about();
CommandAbout manual_pages_about();
CommandAbout metrics_document_about();
/// @}

struct Command {
  const char* name;
  const char* help;  ///< null: for tools of this repository, not shown
  int (*run)(const std::vector<std::string>&);
  CommandAbout (*about)();
};
/// In the order of help.
const std::vector<Command>& commands();

using server::complain;
/// complain(), and where help is, unless the text ends with a question of its own.
int wrong_usage(const std::string& command, const std::string& text, int status = 2);
/// Parses the arguments of a command. @returns what is in them besides options; or the exit status
/// where help, which it prints, or a fault, which it tells, is all there is.
[[nodiscard]] tl::expected<std::vector<std::string>, int> take_arguments(
    const std::string& command, const FlagTable& table, CommandAbout (*about)(),
    const std::vector<std::string>& arguments);
/// take_arguments() of a command that has options only. @returns the exit status where that is all.
[[nodiscard]] std::optional<int> take_options(const std::string& command, const FlagTable& table,
                                              CommandAbout (*about)(),
                                              const std::vector<std::string>& arguments);

}  // namespace kintsugi::cmd
