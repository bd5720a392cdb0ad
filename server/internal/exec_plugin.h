#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/secret.h"

/// Programs that kubeconfigs name for their credentials (client.authentication.k8s.io, FP-156). A
/// process in a sandbox runs none (SE-185): a helper that was made before does.
namespace kintsugi::server {

struct ExecPlugin {
  std::string command;  ///< a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< besides ours
  std::string api_version;
  std::string cluster;  ///< JSON of what it is told of the server; "": nothing
};

struct ExecCredential {
  Secret token;                 ///< empty: none
  std::string certificate_pem;  ///< with key_pem, or none
  Secret key_pem;
  std::int64_t ends = 0;  ///< [unix seconds], 0: it does not say
  bool operator==(const ExecCredential&) const = default;
};

/// What a plug-in may take.
struct ExecLimits {
  std::int64_t seconds = 60;
  std::size_t bytes = std::size_t{1} << 20;  ///< on standard output
};

/// Forks the helper: at the start, before other threads, open files and the sandbox. It runs any
/// number of plug-ins at a time; standard input of one is empty, and what it starts ends with it
/// when its time is over. The helper ends with this process. @error kIo
[[nodiscard]] Expected<void> start_exec_helper();
/// Whoever waits for a plug-in waits no longer; for the end of the process.
void stop_exec_helper() noexcept;
/// Instead: this process has no helper and must not run anything.
void refuse_exec_plugins() noexcept;

/// What the plug-in said last; it is asked, and waited for, when it has not been yet. Threads: any.
/// @error kConfig names the command and what is wrong.
[[nodiscard]] Expected<ExecCredential> ask_exec_plugin(const ExecPlugin& plugin);

/// The same without a memory: asks it now, within these limits, and waits. Threads: any.
[[nodiscard]] Expected<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, ExecLimits limits);

/// Of the plug-ins that were asked: some answer ends soon, or (`all`) was not accepted by a server.
[[nodiscard]] bool exec_renewal_is_due(bool all);
/// Asks these again; what fails is a log line and keeps what it had. Blocks. @returns whether any
/// says something else now.
[[nodiscard]] bool renew_exec_credentials(bool all);

/// What a plug-in printed. @error kConfig
[[nodiscard]] Expected<ExecCredential> read_exec_credential(const std::string& text,
                                                            const std::string& api_version);

}  // namespace kintsugi::server
