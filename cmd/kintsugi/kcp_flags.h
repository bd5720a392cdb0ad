#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "proxy/config/config.h"

namespace kintsugi::cmd {

/// A flag of kcp-front-proxy. The table of them is what is parsed and what help shows.
struct KcpFlag {
  enum class Type : std::uint8_t { kText, kSwitch, kNumber, kDuration, kList, kRepeated };
  Type type = Type::kText;
  std::string_view name, argument, default_text, help;
  std::string_view group = {};  ///< where help shows it; flags of a group stand together
};
using KcpFlagValues = std::map<std::string, std::vector<std::string>>;

[[nodiscard]] const std::vector<KcpFlag>& kcp_flags();
/// Checks a value and keeps it: lists and repeated flags add, others replace.
/// @error kConfig what is wrong with it.
[[nodiscard]] Expected<void> take_kcp_flag(const KcpFlag& flag, std::string_view value,
                                           std::vector<std::string>& values);
/// Lines about what is accepted and does nothing: unknown feature gates and the like.
[[nodiscard]] std::vector<std::string> kcp_flag_warnings(const KcpFlagValues& values);
/// Without --config: what is missing, all at once. @error kConfig
[[nodiscard]] Expected<void> judge_kcp_flags(const KcpFlagValues& values);
/// @param alone  without --config: what is not given has kcp's defaults.
/// @error kConfig "--<flag>: <cause>"
[[nodiscard]] Expected<void> apply_kcp_flags(const KcpFlagValues& values, bool alone,
                                             proxy::ProxyConfig& config);
/// What the mapping file that `config` names says about shards: their CA and client pair, and
/// whether logical clusters are served at all. @param is_kcp  without an entry for them they are
/// served only if the file has none at all, with the credentials of --shards-kubeconfig.
/// @error kConfig names file and line.
[[nodiscard]] Expected<void> apply_mapping(bool is_kcp, proxy::ProxyConfig& config);

/// "2m0s", "1.5h", "300ms", "0".
[[nodiscard]] std::optional<Duration> parse_go_duration(std::string_view text);

}  // namespace kintsugi::cmd
