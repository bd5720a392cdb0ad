#include "cmd/kintsugi/limit_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "controlplane/quotas/workspace_quotas.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint64_t kMostOfALimit = 1'000'000'000;
constexpr std::uint32_t kWritesPerSecond = 500, kWriteBurst = 2'000, kWorkspaceWatches = 5'000;

/// What a key of `limits` leads to; nullptr: there is no such key.
std::uint32_t* member_of(serving::RequestLimits& limits, serving::OpenLimits& open,
                         std::string_view key) {
  if (std::uint32_t* const member = key.starts_with("merged_") || key.starts_with("tunnels_")
                                        ? nullptr  // a proxy's
                                        : open.member(key)) {
    return member;
  }
  if (key == "unauthenticated.rps") {
    return &limits.unauthenticated_rps;
  }
  const std::size_t dot = std::min(key.find('.'), key.size());
  const std::string_view whose = key.substr(0, dot);
  serving::LimitRule* rule = whose == "user"      ? &limits.user
                             : whose == "cluster" ? &limits.cluster
                             : whose == "shard"   ? &limits.shard
                                                  : nullptr;
  const std::string_view what = key.substr(std::min(dot + 1, key.size()));
  if (rule == nullptr) {
    return nullptr;
  }
  return what == "rps"          ? &rule->rps
         : what == "burst"      ? &rule->burst
         : what == "concurrent" ? &rule->concurrent
         : what == "watches"    ? &rule->watches
                                : nullptr;
}

}  // namespace

Expected<serving::RequestLimits> LimitOptions::requests() const {
  serving::OpenLimits open;
  return parse(open);
}

Expected<serving::RequestLimits> LimitOptions::parse(serving::OpenLimits& open) const {
  serving::RequestLimits out;
  for (const std::string& text : limits) {
    const std::size_t equals = std::min(text.find('='), text.size());
    std::uint32_t* member = member_of(out, open, std::string_view(text).substr(0, equals));
    const std::optional<std::uint64_t> value =
        parse_decimal(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (member == nullptr || !value || *value > kMostOfALimit) {
      return fail(Errc::kConfig, "--limits: \"" + text +
                                     "\" is not KEY=N with user, cluster or shard .rps, .burst, "
                                     ".concurrent, .watches, unauthenticated.rps, connections, "
                                     "connections_per_address, connections_per_user, "
                                     "watches_per_user or watches_per_resource");
    }
    *member = static_cast<std::uint32_t>(*value);
  }
  return out;
}

Expected<LimitOptions::Quotas> LimitOptions::workspace() const {
  Quotas out{controlplane::default_quotas(),
             {.rps = kWritesPerSecond, .burst = kWriteBurst},
             {.watches = kWorkspaceWatches}};
  for (const std::string& text : quotas) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string_view key = std::string_view(text).substr(0, equals);
    const std::string_view value = std::string_view(text).substr(std::min(equals + 1, text.size()));
    std::uint32_t* rate = key == "writes.rps"     ? &out.writes.rps
                          : key == "writes.burst" ? &out.writes.burst
                          : key == "watches"      ? &out.watches.watches
                                                  : nullptr;
    const std::optional<std::uint64_t> number = parse_decimal(value);
    const bool is_rate = rate != nullptr && number && *number <= kMostOfALimit;
    if (is_rate) {
      *rate = static_cast<std::uint32_t>(*number);
    } else if (rate != nullptr || !controlplane::set_quota(out.sums, key, value)) {
      return fail(Errc::kConfig,
                  "--quotas: \"" + text +
                      "\" is not KEY=N with objects, bytes, definitions, exports, bindings, "
                      "namespaces, serviceaccounts, children, owned, watches, writes.rps or "
                      "writes.burst");
    }
  }
  return out;
}

Expected<std::shared_ptr<serving::ProcessLimits>> LimitOptions::make(std::size_t loops) const {
  serving::OpenLimits open;
  auto limited = parse(open);
  if (!limited) {
    return fail(std::move(limited.error()));
  }
  auto each = workspace();
  if (!each) {
    return fail(std::move(each.error()));
  }
  limited->workspace_writes = each->writes;
  limited->workspace_watches = each->watches;
  serving::FairLimits all;
  all.seats = seats != 0 ? seats : serving::ProcessLimits::seats_of_shard();
  all.per_turn = serving::ProcessLimits::kPerTurn;
  return std::make_shared<serving::ProcessLimits>(
      all, *limited, loops, open.payers.or_else(serving::PayerBounds::usual()),
      open.of_connections());
}

FlagGroup limit_flags(LimitOptions& options, std::vector<Flag> own) {
  FlagGroup group{"Limits", std::move(own)};
  std::vector<Flag>& flags = group.flags;
  flags.push_back({"seats", "N", "0",
                   "requests of users that run at once, beyond which they take turns; 0: 200 for "
                   "each core",
                   into(options.seats)});
  flags.push_back({"limits", "KEY=N,…", "",
                   "user.rps, .burst, .concurrent, .watches, the same of cluster and shard, "
                   "unauthenticated.rps, connections, connections_per_address, "
                   "connections_per_user, watches_per_user, watches_per_resource; beyond them 429",
                   into(options.limits)});
  flags.push_back({"quotas", "KEY=N,…", "objects=100k,bytes=512Mi,…",
                   "what each workspace may have: objects, bytes, definitions, exports, bindings, "
                   "namespaces, serviceaccounts, children, watches, writes.rps, .burst, and owned, "
                   "workspaces of one owner; 0: any",
                   into(options.quotas)});
  return group;
}

}  // namespace kintsugi::cmd
