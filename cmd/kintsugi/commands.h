#pragma once

#include <string>
#include <vector>

#include "server/program.h"

/// The subcommands. Each takes the arguments after its name and returns the exit status: 0 after an
/// orderly end, 1 with one line on stderr when something could not start, 2 for wrong usage.
namespace kintsugi::cmd {

int run_up(const std::vector<std::string>& arguments);
int run_proxy(const std::vector<std::string>& arguments);
int run_shard(const std::vector<std::string>& arguments);
int run_store(const std::vector<std::string>& arguments);
/// Besides: 3 time ran out, 4 no such workspace, 5 access denied.
int run_ws(const std::vector<std::string>& arguments);

using server::complain;
using server::version;

}  // namespace kintsugi::cmd
