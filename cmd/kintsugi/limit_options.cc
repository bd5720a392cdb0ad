#include "cmd/kintsugi/limit_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "controlplane/quotas/workspace_quotas.h"
#include "server/files.h"
#include "server/limit_options.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint64_t kMostOfALimit = 1'000'000'000;
constexpr std::uint32_t kWritesPerSecond = 500, kWriteBurst = 2'000, kWorkspaceWatches = 5'000;

/// What a key of `limits` leads to; nullptr: there is no such key.
std::uint32_t* member_of(serving::RequestLimits& limits, serving::OpenLimits& open,
                         std::string_view key, bool of_proxy) {
  if (std::uint32_t* const member =
          server::is_limit_of_proxy(key) && !of_proxy ? nullptr : open.member(key)) {
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
  for (const std::string& user : distributed_users) {
    if (user.empty() || user.find_first_of("\"\\\r\n") != std::string::npos) {
      return fail(Errc::kConfig,
                  "--distribute-by-effective-user: \"" + user + "\" is not the name of a user");
    }
  }
  std::vector<std::string> texts = limits;
  if (!file.empty()) {
    auto lines = server::read_file(file);
    if (!lines) {
      return fail(std::move(lines.error()));
    }
    for (const std::string_view line : split(*lines, '\n')) {
      const std::string_view text = trim(line);
      if (!text.empty() && !text.starts_with('#')) {
        texts.emplace_back(text);
      }
    }
  }
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    std::uint32_t* member =
        member_of(out, open, std::string_view(text).substr(0, equals), of_proxy);
    const std::optional<std::uint64_t> value =
        parse_decimal(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (member == nullptr || !value || *value > kMostOfALimit) {
      return fail(Errc::kConfig, "--limits: \"" + text + "\"" +
                                     (file.empty() ? "" : " (or in " + file + ")") +
                                     " is not KEY=N with user, cluster or shard .rps, .burst, "
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

Expected<LimitOptions::All> LimitOptions::all() const {
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
  return All{*limited, open.payers.or_else(serving::PayerBounds::usual()), open.of_connections()};
}

Expected<std::shared_ptr<serving::ProcessLimits>> LimitOptions::make(std::size_t loops) const {
  auto said = all();
  if (!said) {
    return fail(std::move(said.error()));
  }
  serving::FairLimits fair;
  fair.seats = seats != 0 ? seats : serving::ProcessLimits::seats_of_shard();
  fair.per_turn = serving::ProcessLimits::kPerTurn;
  auto out = std::make_shared<serving::ProcessLimits>(fair, said->requests, loops, said->payers,
                                                      said->connections);
  out->distribute_by_effective_user(distributed_users);
  return out;
}

Expected<void> LimitOptions::apply(serving::ProcessLimits& to) const {
  auto said = all();
  if (!said) {
    return fail(std::move(said.error()));
  }
  to.requests().set(said->requests);
  to.bounds().set(said->payers.rules());
  to.connections()->set(said->connections);
  return {};
}

FlagGroup limit_flags(LimitOptions& options, std::vector<Flag> own) {
  FlagGroup group{"Limits", std::move(own)};
  std::vector<Flag>& flags = group.flags;
  flags.push_back({"seats", "N", "0",
                   "requests of users that run at once, beyond which they take turns; 0: 200 for "
                   "each core",
                   into(options.seats)});
  flags.push_back(
      {"limits", "KEY=N,…", "",
       "user.rps, .burst, .concurrent, .watches, the same of cluster and shard, "
       "unauthenticated.rps, connections, connections_per_address, "
       "connections_per_user, watches_per_user, watches_per_resource" +
           std::string(options.of_proxy ? ", merged_per_user, merged_streams_per_user, "
                                          "tunnels_per_user, at the proxy and at each shard"
                                        : "") +
           "; beyond them 429",
       into(options.limits)});
  flags.push_back({"quotas", "KEY=N,…", "objects=100k,bytes=512Mi,…",
                   "what each workspace may have: objects, bytes, definitions, exports, bindings, "
                   "namespaces, serviceaccounts, children, watches, writes.rps, .burst, and owned, "
                   "workspaces of one owner; 0: any",
                   into(options.quotas)});
  flags.push_back({"distribute-by-effective-user", "USER,…", "",
                   "users who speak for many others, such as gateways: where seats are scarce whom "
                   "they impersonate takes turns, each for himself",
                   into(options.distributed_users)});
  return group;
}

}  // namespace kintsugi::cmd
