#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/limit_options.h"
#include "cmd/kintsugi/log_flags.h"
#include "cmd/kintsugi/revocation_flags.h"
#include "cmd/kintsugi/span.h"
#include "cmd/kintsugi/store_flags.h"
#include "cmd/kintsugi/tenant_flags.h"
#include "cmd/kintsugi/trace_flags.h"
#include "net/address_rules.h"
#include "server/files.h"
#include "server/layout.h"
#include "server/up_program.h"
#include "server/worker_config.h"
#include "server/worker_program.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kMostShards = 64, kMostShardLoops = 64, kMostProxies = 8;
constexpr std::uint32_t kLongestTrip = 10'000, kMostLost = 500;

/// As typed.
struct Options {
  std::string dir = ".kintsugi";
  std::string store = "lmdb";
  std::string join_bind, workers;
  RevocationOptions revocations;
  LimitOptions limits{.seats = 0, .limits = {}, .quotas = {}, .of_proxy = true};
  LogOptions log;
  server::UpOptions up;
};

FlagTable flag_table(Options& options) {
  return {
      {"Installation",
       {{"dir", "DIR", ".kintsugi",
         "folder of the installation; made when missing, reused when there", into(options.dir)},
        {"shards", "N", "3", "number of shards: root, shard-1, shard-2, …",
         into(options.up.shards)},
        {"shard-loops", "N", "1", "threads of each shard that serve requests",
         into(options.up.shard_loops)},
        {"proxies", "N", "1",
         "number of proxies that share one store, with --store etcd: the first at --port, the "
         "others at ports that stay (contexts base-2, …)",
         into(options.up.proxies)},
        {"regions", "A,B,…", "eu-west-1,us-east-1,ap-south-1",
         "region labels, given to the shards in turn", into(options.up.regions)},
        {"regions-far", "", "",
         "regions are far apart: proxies are in them in turn, and what goes from a proxy to shards "
         "of other regions, and to the store, is delayed (docs/regions.md)",
         into(options.up.regions_far)},
        {"regions-rtt", "MS", "80", "with --regions-far: how far, there and back",
         into(options.up.regions_rtt)},
        {"regions-loss", "PER-MILLE", "0",
         "with --regions-far: packets that are lost; each holds up what is behind it for a round "
         "trip",
         into(options.up.regions_lost_per_mille)},
        {"workers", "ROLE,…", "",
         "roles whose workers run beside the shards, each with its kinds for all workspaces in "
         "root:<role>",
         into(options.workers)},
        {"store", "lmdb|etcd|etcd=URL,…", "lmdb",
         "where shards have their objects, and proxies theirs: in their folders, in an etcd that "
         "`up` runs (that of PATH), or in one that runs",
         into(options.store)},
        {"etcd-members", "1|3", "1",
         "members of the etcd that `up` runs, with --store etcd; each is a process of its own",
         into(options.up.etcd_members)},
        {"ready-timeout", "TIME", "60s",
         "ends with status 3 if not all processes are ready by then; 0s: waits for ever",
         into_span(options.up.ready_timeout)},
        {"hang-timeout", "TIME", "30s",
         "a process that has said that it lives, and then answers nothing for so long, is ended "
         "and "
         "started again; 0s: never",
         into_span(options.up.hang_timeout)}}},
      {"--workers delivery",
       {{"delivery-broker", "URL", "",
         "the MQTT broker; without it `up` runs the mosquitto of this machine",
         into(options.up.delivery.broker)},
        {"delivery-port", "PORT", "1883", "port of that one, on 127.0.0.1",
         into(options.up.delivery.port)},
        {"delivery-clients", "ID=CLUSTER,…", "edge-1=root:edge-1",
         "client ids and the logical cluster that each fills; workspaces are made",
         into(options.up.delivery.clients)}}},
      {"Addresses",
       {{"port", "PORT", "6443", "port of the proxy", into(options.up.port)},
        {"bind", "ADDRESS", "127.0.0.1", "address that the proxy listens on",
         into(options.up.address)},
        {"admin-port", "PORT", "0",
         "TCP port of the proxy's admin listener on 127.0.0.1, for the admin's certificate; 0: "
         "only run/admin.sock",
         into(options.up.admin_port)},
        {"ui", "", "",
         "the console at https://ADDRESS:PORT/ui/ too, for whom rights in root let see it",
         into(options.up.ui)},
        {"join-bind", "ADDRESS:PORT", "",
         "where shards and proxies of other folders and machines join with tokens of `kintsugi "
         "token`; off where it is not given",
         into(options.join_bind)}}},
      {"Certificates", revocation_flags(options.revocations)},
      log_flags(options.log),
      trace_flags(options.up.tracing),
      {"As kcp does",
       {{"wildcard", "serve|deny", "serve",
         "what the proxy does with /clusters/*: merges all shards, or refuses as kcp does",
         into(options.up.wildcard)},
        {"consumers", "ignored|required", "ignored",
         "endpoints of slices: of every selected shard, or as kcp of those with a consumer",
         into(options.up.consumers)}}},
      limit_flags(options.limits,
                  {{"memory-budget", "MIB", "0",
                    "memory of the proxy and all shards together, from which on they give up "
                    "what can be had again; 0: 75 % of the control group, or of the machine each",
                    into(options.up.limits.memory_mib)}}),
      tenant_flags(options.up.tenants, "127.0.0.0/8,::1 if --bind is one of them, else none")};
}

/// What runs on one machine for one developer has its webhooks and issuers there, too.
void allow_loopback(server::UpOptions& options) {
  const auto bound = net::canonical_ip(options.address);
  const bool local =
      options.address == "localhost" ||
      (bound && (options.address == "::1" || net::ip_text(*bound).starts_with("127.")));
  if (local && options.tenants.outgoing_allow.empty()) {
    options.tenants.outgoing_allow = {"127.0.0.0/8", "::1"};
    options.tells_outgoing = true;
  }
}

Expected<void> take_store(const std::string& typed, server::UpOptions& options) {
  options.uses_etcd = typed != "lmdb";
  if (typed == "lmdb" || typed == "etcd") {
    return {};
  }
  StoreFlags flags;
  flags.store = typed;
  auto params = understood_store(flags);
  if (!params) {
    return fail(Errc::kConfig, "--store: \"" + typed +
                                   "\" is not a choice that this version has; known: lmdb, etcd, "
                                   "etcd=URL,…");
  }
  options.etcd_urls = std::move(params->endpoints);
  return {};
}

Expected<void> take_join_bind(const std::string& typed, server::UpOptions& options) {
  if (typed.empty()) {
    return {};
  }
  const std::size_t colon = std::min(typed.rfind(':'), typed.size());
  std::optional<std::uint16_t> port;
  if (colon < typed.size()) {
    port = parse_decimal<std::uint16_t>(std::string_view(typed).substr(colon + 1));
  }
  const auto address = net::canonical_ip(typed.substr(0, colon));
  if (!port || *port == 0 || !address) {
    return fail(Errc::kConfig, "--join-bind: \"" + typed + "\" is not <IP address>:<port>");
  }
  options.join_address = net::ip_text(*address);
  options.join_port = *port;
  return {};
}

/// What is wrong with an option that names one of a few things; "" if nothing is.
std::string unknown_choice(const Options& options) {
  struct Choice {
    const char* name;
    const std::string& value;
    std::vector<std::string> known;
  };
  const Choice choices[] = {{"wildcard", options.up.wildcard, {"serve", "deny"}},
                            {"consumers", options.up.consumers, {"ignored", "required"}}};
  for (const auto& [name, value, known] : choices) {
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      return std::string("--") + name + ": \"" + value +
             "\" is not a choice that this version has; known: " + join(known, ", ");
    }
  }
  return "";
}

/// @error kConfig names the option and what is wrong with it.
Expected<server::UpOptions> understood(Options typed) {
  server::UpOptions& options = typed.up;
  if (options.shards == 0 || options.shards > kMostShards) {
    return fail(Errc::kConfig, "--shards: must be 1 to " + std::to_string(kMostShards));
  }
  if (options.shard_loops == 0 || options.shard_loops > kMostShardLoops) {
    return fail(Errc::kConfig, "--shard-loops: must be 1 to " + std::to_string(kMostShardLoops));
  }
  if (options.regions.empty()) {
    return fail(Errc::kConfig, "--regions: needs at least one region");
  }
  if (options.regions_rtt == 0 || options.regions_rtt > kLongestTrip) {
    return fail(Errc::kConfig, "--regions-rtt: must be 1 to " + std::to_string(kLongestTrip));
  }
  if (options.regions_lost_per_mille > kMostLost) {
    return fail(Errc::kConfig, "--regions-loss: must be 0 to " + std::to_string(kMostLost));
  }
  if (options.port == 0) {
    return fail(Errc::kConfig, "--port: 0 is no port");
  }
  if (auto store = take_store(typed.store, options); !store) {
    return fail(std::move(store.error()));
  }
  if (options.etcd_members != 1 && options.etcd_members != 3) {
    return fail(Errc::kConfig, "--etcd-members: must be 1 or 3");
  }
  if (options.etcd_members != 1 && (!options.uses_etcd || !options.etcd_urls.empty())) {
    return fail(Errc::kConfig, "--etcd-members: of an etcd that `up` runs: add --store etcd");
  }
  if (options.proxies == 0 || options.proxies > kMostProxies) {
    return fail(Errc::kConfig, "--proxies: must be 1 to " + std::to_string(kMostProxies));
  }
  if (options.proxies > 1 && !options.uses_etcd) {
    return fail(Errc::kConfig, "--proxies: several share one store: add --store etcd");
  }
  if (const std::string fault = unknown_choice(typed); !fault.empty()) {
    return fail(Errc::kConfig, fault);
  }
  if (auto joins = take_join_bind(typed.join_bind, options); !joins) {
    return fail(std::move(joins.error()));
  }
  if (!typed.workers.empty()) {
    auto roles =
        server::parse_worker_roles(typed.workers, server::known_worker_roles(), "--workers");
    if (!roles) {
      return fail(std::move(roles.error()));
    }
    options.workers = std::move(*roles);
    if (options.delivery.clients.empty()) {
      options.delivery.clients = {"edge-1=root:edge-1"};
    }
    if (auto known = server::check_up_workers(options); !known) {
      return fail(std::move(known.error()));
    }
  }
  auto revocations = understood_revocations(typed.revocations);
  if (!revocations) {
    return fail(std::move(revocations.error()));
  }
  options.revocations = std::move(*revocations);
  allow_loopback(options);
  if (auto valid = check_tenant_options(options.tenants); !valid) {
    return fail(std::move(valid.error()));
  }
  if (auto valid = typed.limits.make(1); !valid) {
    return fail(std::move(valid.error()));
  }
  options.limits.limits = std::move(typed.limits.limits);
  options.limits.quotas = std::move(typed.limits.quotas);
  options.limits.seats = typed.limits.seats;
  options.limits.distributed_users = std::move(typed.limits.distributed_users);
  if (options.limits.memory_mib == 0) {
    options.limits.memory_mib = server::memory_of_control_group();
  }
  if (auto right = understand(options.tracing); !right) {
    return fail(std::move(right.error()));
  }
  options.trace_arguments = arguments_of(options.tracing);
  options.layout = {server::absolute_path(typed.dir)};
  options.log = [log = typed.log](const std::string& file) { return arguments_of(log, file); };
  return std::move(options);
}

}  // namespace

CommandAbout up_about() {
  Options options;
  return {
      "kintsugi up [options]",
      "Runs a whole installation in the foreground: makes certificates and kubeconfigs, starts a "
      "proxy and\nshards, restarts what dies. Ctrl-C stops all of it in order; a later start "
      "goes on with the same data.",
      {},
      without_setters(flag_table(options))};
}

int run_up(const std::vector<std::string>& arguments) {
  Options typed;
  if (const auto status = take_options("up", flag_table(typed), up_about, arguments)) {
    return *status;
  }
  const LogOptions log = typed.log;
  auto options = understood(std::move(typed));
  if (!options) {
    return complain("up", options.error(), 2);
  }
  if (auto written = use(log); !written) {
    return complain("up", written.error());
  }
  for (const auto& [name, value] : krm::config_environment()) {
    log_warn("`kintsugi up` says itself how its processes are configured", {{"ignored", name}});
    ::unsetenv(name.c_str());
  }
  return server::run_up_program(std::move(*options));
}

}  // namespace kintsugi::cmd
