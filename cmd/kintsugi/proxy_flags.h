#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/log_flags.h"
#include "cmd/kintsugi/store_flags.h"
#include "server/confinement.h"
#include "server/loaded_config.h"

namespace kintsugi::cmd {

/// What `kintsugi proxy` was started with: its own options, and those of kcp-front-proxy
/// (docs/kcp.md).
struct ProxyCommandLine {
  std::string config;           ///< --config, absolute; "": none
  std::string validate;         ///< level: "files", "syntax"; "": no
  std::string print_effective;  ///< "yaml", "json"; "": no
  bool help = false, version = false;
  bool insecure_file_modes = false;
  bool reads_environment = false;  ///< KINTSUGI_CFG_… (OP-107)
  LogOptions log;
  server::Confinement confinement;
  StoreFlags store = unsaid_store();
  /// kcp's flags by name, in their order; comma lists are split.
  std::map<std::string, std::vector<std::string>> flags;
  std::vector<std::string> warnings;  ///< a line each
};

/// Why there is no configuration.
struct ConfigFault {
  Error error;
  bool of_command_line = false;  ///< what a flag says, or leads to; else the file is wrong
};

/// Flags that nobody knows are refused. In kcp's command line (`as_kcp`, or a flag of kcp and no
/// --config) they are warnings, for scripts of a newer kcp, unless a known one is so near that they
/// are typing errors.
/// @param as_kcp  called by the name kcp-front-proxy.
/// @error kConfig one line that names the flag.
[[nodiscard]] Expected<ProxyCommandLine> parse_proxy_command_line(
    const std::vector<std::string>& arguments, bool as_kcp = false);

/// Configuration of a command line: the file that --config names, and the flags, which win.
/// Reads the files; the same again for a reload. A command line without --config makes what kcp
/// makes: a self-signed serving pair in --cert-dir, if none is named and none is there.
/// @error its text names flag or file, line and cause; flags that are missing all at once.
[[nodiscard]] tl::expected<server::LoadedProxyConfig, ConfigFault> load_proxy_config(
    const ProxyCommandLine& line);

}  // namespace kintsugi::cmd
