#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "server/worker_config.h"

namespace kintsugi::server {

/// What `kintsugi worker` is to do.
struct WorkerOptions {
  WorkerConfig config;
  /// Arguments of a child besides those that say which role it is and where it listens: `--config`
  /// and what the command line says.
  std::vector<std::string> child_arguments;
};

/// Names that `--roles` may have.
[[nodiscard]] std::vector<std::string> known_worker_roles();

/// What --validate looks at besides the document: the kubeconfig can be read and its pair fits, and
/// endpoints are where its credential may be sent. @error kConfig, kIo name file or key.
[[nodiscard]] Expected<void> check_worker(const WorkerConfig& config);

/// Runs the roles until SIGTERM or SIGINT, which let what runs end: 0. A second one ends the
/// process at once: 143. SIGHUP reads the kubeconfig again. Several roles have a process each, with
/// this one as their supervisor, unless they are to share it (RT-2, RT-4).
/// @returns the exit status: 2 with a line on stderr for a fault of the configuration or a data_dir
/// that another process uses; 1 for what else it cannot start with; 70 when memory is at its limit.
int run_worker_program(WorkerOptions options);

}  // namespace kintsugi::server
