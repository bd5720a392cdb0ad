#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "krm/json.h"

namespace kintsugi::cmd {

/// Where a running proxy is asked: `named` if it is not empty, else $KINTSUGI_ADMIN, else the first
/// that exists of the sockets of `kintsugi up` in this folder and of the service.
[[nodiscard]] std::string admin_socket(const std::string& named);

/// The sockets of the processes that --process names, in the folder of admin_socket(): of NAME
/// admin-NAME.sock, of `proxy` admin.sock, of `all` each that is there, by name. @error kNotFound.
[[nodiscard]] Expected<std::map<std::string, std::string>> process_sockets(
    const std::string& admin, const std::string& process);

struct AdminAnswer {
  int status = 0;  ///< HTTP
  std::string body;
};
/// A GET there, whatever is answered. Waits at most so many seconds. Blocks.
/// @error kUnreachable nobody answers there, or not in time; kInternal it is no answer.
[[nodiscard]] Expected<AdminAnswer> get_admin(const std::string& socket, const std::string& target,
                                              std::int64_t patience);

/// --admin, which get, explain, keys and log-level have.
[[nodiscard]] Flag admin_flag(std::string& target);

/// The JSON of a request at the Unix socket of an admin listener (`admin.address`), which serves
/// this user and root alone. Waits at most 10 s, takes at most 256 MiB. Blocks.
/// @param target  "/debug/shards"
/// @error kUnreachable nobody answers there; kInternal what answers is no admin listener.
[[nodiscard]] Expected<krm::Json> ask_admin(const std::string& socket, const std::string& target,
                                            const std::string& method = "GET");

}  // namespace kintsugi::cmd
