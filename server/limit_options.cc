#include "server/limit_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "base/memory_limit.h"
#include "base/strings.h"

namespace kintsugi::server {

bool is_limit_of_proxy(std::string_view key) noexcept {
  return key.starts_with("merged_") || key.starts_with("tunnels_");
}

std::uint32_t InstallationLimits::memory_of_process(std::uint32_t shards) const noexcept {
  return memory_mib == 0 ? 0 : std::max(memory_mib / (shards + 1), 1U);
}

std::vector<std::string> InstallationLimits::arguments(std::uint32_t shards) const {
  std::vector<std::string> out;
  const auto add = [&out](const char* name, std::string value) {
    out.insert(out.end(), {name, std::move(value)});
  };
  std::vector<std::string> kept;
  std::copy_if(limits.begin(), limits.end(), std::back_inserter(kept),
               [](const std::string& text) { return !is_limit_of_proxy(text); });
  if (!kept.empty()) {
    add("--limits", join(kept, ","));
  }
  if (!quotas.empty()) {
    add("--quotas", join(quotas, ","));
  }
  if (seats != 0) {
    add("--seats", std::to_string(seats));
  }
  if (!distributed_users.empty()) {
    add("--distribute-by-effective-user", join(distributed_users, ","));
  }
  if (memory_mib != 0) {
    add("--memory-budget", std::to_string(memory_of_process(shards)));
  }
  return out;
}

std::string InstallationLimits::config_text(std::uint32_t shards) const {
  std::map<std::string, std::map<std::string, std::string>> sections;  // "": of `limits` itself
  for (const std::string& text : limits) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string key = text.substr(0, equals);
    const std::size_t dot = key.find('.');
    const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
    sections[section][dot == std::string::npos ? key : key.substr(dot + 1)] =
        text.substr(std::min(equals + 1, text.size()));
  }
  std::string out = sections.empty() ? "" : "limits:\n";
  for (const auto& [section, values] : sections) {
    const std::string margin = section.empty() ? "  " : "    ";
    if (!section.empty()) {
      out.append("  ").append(section).append(":\n");
    }
    for (const auto& [key, value] : values) {
      out.append(margin).append(key).append(": ").append(value).append("\n");
    }
  }
  if (!distributed_users.empty()) {
    out.append("fairness:\n  distribute_by_effective_user: [\"")
        .append(join(distributed_users, "\", \""))
        .append("\"]\n");
  }
  if (memory_mib != 0) {
    out.append("memory:\n  budget: ")
        .append(std::to_string(std::uint64_t{memory_of_process(shards)} << 20))
        .append("\n");
  }
  return out;
}

std::uint32_t memory_of_control_group() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  const std::size_t machine =
      pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
  const std::size_t limit = memory_limit();
  return limit >= machine ? 0 : static_cast<std::uint32_t>((limit / 4 * 3) >> 20);
}

}  // namespace kintsugi::server
