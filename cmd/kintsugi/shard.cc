#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/confinement_flags.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/limit_options.h"
#include "cmd/kintsugi/log_flags.h"
#include "cmd/kintsugi/revocation_flags.h"
#include "cmd/kintsugi/store_flags.h"
#include "cmd/kintsugi/tenant_flags.h"
#include "cmd/kintsugi/trace_flags.h"
#include "controlplane/admission/definition_admission.h"
#include "krm/names.h"
#include "net/congestion.h"
#include "net/upstream.h"
#include "server/deep_check.h"
#include "server/files.h"
#include "server/layout.h"
#include "server/shard_files.h"
#include "server/shard_program.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kMostLoops = 64;
constexpr apiserver::ConcurrencyLimits kRequests;

/// As typed.
struct Options {
  std::string join, name, replica, bind = "127.0.0.1", advertise, audit_log, audit_webhook,
                                   claims_escalation = "refuse", congestion = "auto";
  std::string encryption;
  StoreFlags store;
  bool insecure_file_modes = false;
  RevocationOptions revocations;
  std::uint16_t port = 0;
  std::uint32_t loops = 1;
  std::uint32_t reads = kRequests.reads, writes = kRequests.writes,
                watch_starts = kRequests.watch_starts;
  std::uint32_t memory_budget = 0;  // [MiB]
  LimitOptions limits;
  std::vector<std::string> labels, plugins;
  server::TenantOptions tenants;
  server::Confinement confinement;
  LogOptions log;
  serving::TracingConfig tracing;
  bool as_kcp = false;
  std::string validate;  ///< "true", "files", "syntax", "deep"; "": no
};

FlagTable flag_table(Options& options) {
  return {{"Shard",
           {{"join", "DIR", "", "folder of the installation to join, made by `kintsugi up`",
             into(options.join)},
            {"name", "NAME", "", "name of the shard; `root` is the shard that the others join",
             into(options.name)},
            {"replica", "NAME", "",
             "one of several processes of the shard, with --store etcd=…: has its files in "
             "DIR/shards/NAME/replicas",
             into(options.replica)},
            {"labels", "KEY=VALUE,…", "",
             "labels of the Shard object, where it does not have them yet (region=…,cloud=…)",
             into(options.labels)},
            {"validate", "", "",
             "check the command line and the files that it names, tell what is wrong, and exit; "
             "--validate=syntax: without the files; --validate=deep: and ask root, other shards "
             "and etcd",
             [&options](std::string_view value) {
               return take_choice(value, {"true", "files", "syntax", "deep"}, options.validate);
             }}}},
          {"Addresses",
           {{"bind", "ADDRESS", "127.0.0.1", "address to listen on", into(options.bind)},
            {"port", "PORT", "0", "port to listen on; 0: that of the last run, or any",
             into(options.port)},
            {"advertise", "URL", "by --bind and --port",
             "https://HOST[:PORT] where the proxy and other shards come to it, such as that of a "
             "Service; its certificate names the host",
             into(options.advertise)},
            {"congestion", "auto|system|NAME", "auto",
             "how TCP connections find their rate: auto: to and from far peers by BBR, where the "
             "kernel has it; system: as the kernel does; NAME: by that algorithm",
             into(options.congestion)}}},
          {"Certificates", revocation_flags(options.revocations)},
          limit_flags(
              options.limits,
              {{"loops", "N", "1", "threads that serve requests", into(options.loops)},
               {"max-reads", "N", std::to_string(kRequests.reads),
                "reads that a thread runs at once, more get 429; 0: no limit", into(options.reads)},
               {"max-writes", "N", std::to_string(kRequests.writes), "the same for writes",
                into(options.writes)},
               {"max-watch-starts", "N", std::to_string(kRequests.watch_starts),
                "the same for watches that begin", into(options.watch_starts)},
               {"memory-budget", "MIB", "0",
                "memory of the process, from which on it gives up what can be had again; 0: 75 % "
                "of what the process may use",
                into(options.memory_budget)},
               {"limits-file", "FILE", "",
                "more of --limits, KEY=N a line; read again when it changes, and on SIGHUP",
                into(options.limits.file)}}),
          store_flags(options.store),
          {"Data",
           {{"encryption-provider-config", "FILE", "<join>/pki/encryption.yaml, where it is there",
             "EncryptionConfiguration: which resources are encrypted at rest, with which keys",
             into(options.encryption)},
            {"force", "", "", "opens a store that `kintsugi store copy` has moved elsewhere",
             into(options.store.force)},
            {"insecure-file-modes", "", "",
             "keys and kubeconfigs that others may read end the start; with this they are warnings",
             into(options.insecure_file_modes)}}},
          log_flags(options.log),
          trace_flags(options.tracing),
          {"Rights and audit",
           {{"binding-claims-escalation", "refuse|allow", "refuse",
             "whether one may accept permission claims for verbs that one does not hold oneself",
             into(options.claims_escalation)},
            {"enable-admission-plugins", "NAME,…", "",
             "more of kcp's admission plugins: apis.kcp.io/CRDNoOverlappingGVR refuses "
             "CustomResourceDefinitions of what an APIBinding has bound",
             into(options.plugins)},
            {"audit-log", "FILE", "",
             "appends a line of JSON for every request; SIGHUP opens the file again",
             into(options.audit_log)},
            {"audit-webhook-config-file", "FILE", "",
             "kubeconfig of the server that the same lines are posted to, in batches",
             into(options.audit_webhook)}}},
          tenant_flags(options.tenants, ""),
          {"Tests of proxies",
           {{"as-kcp", "", "",
             "towards a proxy it is what a shard of kcp is (docs/testing.md); nothing to work with",
             into(options.as_kcp)}}},
          confinement_flags(options.confinement)};
}

Expected<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (equals == std::string::npos || !krm::check_qualified_name(key).empty() ||
        !krm::check_label_value(value).empty()) {
      return fail(Errc::kConfig, "--labels: \"" + text + "\" is not KEY=VALUE of a valid label");
    }
    labels[key] = value;
  }
  return labels;
}

Expected<void> check_options(const Options& options) {
  if (options.join.empty()) {
    return fail(Errc::kConfig, "--join: which installation? Give its folder");
  }
  if (const auto wrong = krm::check_dns1123_label(options.name); !wrong.empty()) {
    return fail(Errc::kConfig, "--name: \"" + options.name + "\" is not a name: " + wrong.front());
  }
  if (const auto wrong = krm::check_dns1123_label(options.replica);
      !options.replica.empty() && !wrong.empty()) {
    return fail(Errc::kConfig,
                "--replica: \"" + options.replica + "\" is not a name: " + wrong.front());
  }
  if (options.loops == 0 || options.loops > kMostLoops) {
    return fail(Errc::kConfig, "--loops: must be 1 to " + std::to_string(kMostLoops));
  }
  if (const auto url = net::Url::parse(options.advertise);
      !options.advertise.empty() && (!url || url->scheme != "https" || !url->path.empty())) {
    return fail(Errc::kConfig,
                "--advertise: \"" + options.advertise + "\" is not https://HOST[:PORT]");
  }
  if (options.claims_escalation != "refuse" && options.claims_escalation != "allow") {
    return fail(Errc::kConfig, "--binding-claims-escalation: must be refuse or allow, not \"" +
                                   options.claims_escalation + "\"");
  }
  for (const std::string& plugin : options.plugins) {
    if (plugin != controlplane::kNoOverlappingDefinitions) {
      return fail(Errc::kConfig, "--enable-admission-plugins: \"" + plugin + "\" is not " +
                                     std::string(controlplane::kNoOverlappingDefinitions));
    }
  }
  if (auto used = net::use_congestion(options.congestion); !used) {
    return fail(Errc::kConfig, "--congestion: " + std::string(used.error().message()));
  }
  return check_tenant_options(options.tenants);
}

/// @error kConfig names the option and what is wrong with it.
Expected<server::ShardOptions> understood(const Options& typed) {
  if (auto valid = check_options(typed); !valid) {
    return fail(std::move(valid.error()));
  }
  auto labels = parse_labels(typed.labels);
  if (!labels) {
    return fail(std::move(labels.error()));
  }
  server::ShardOptions options;
  options.layout = {server::absolute_path(typed.join)};
  options.name = typed.name;
  options.labels = std::move(*labels);
  options.address = typed.bind;
  options.port = typed.port;
  options.advertised = typed.advertise;
  options.loops = typed.loops;
  options.concurrency = {typed.reads, typed.writes, typed.watch_starts};
  options.memory_budget = std::size_t{typed.memory_budget} << 20;
  auto limits = typed.limits.make(typed.loops);
  if (!limits) {
    return fail(std::move(limits.error()));
  }
  options.limits = std::move(*limits);
  if (!typed.limits.file.empty()) {
    options.limits_file = server::absolute_path(typed.limits.file);
    options.reload_limits = [said = typed.limits,
                             file = options.limits_file](serving::ProcessLimits& to) mutable {
      said.file = file;
      return said.apply(to);
    };
  }
  options.quotas = typed.limits.workspace()->sums;  // make() has understood them
  options.claims_escalation = typed.claims_escalation == "allow";
  options.refuses_overlaps = !typed.plugins.empty();
  options.audit_log = typed.audit_log;
  if (!typed.audit_webhook.empty()) {
    options.audit_webhook = server::absolute_path(typed.audit_webhook);
  }
  auto revocations = understood_revocations(typed.revocations);
  if (!revocations) {
    return fail(std::move(revocations.error()));
  }
  options.revocations = std::move(*revocations);
  options.encryption = typed.encryption;
  auto store = understood_store(typed.store);
  if (!store) {
    return fail(std::move(store.error()));
  }
  options.etcd = std::move(*store);
  options.replica = typed.replica;
  if (!options.replica.empty() && options.etcd.endpoints.empty()) {
    return fail(Errc::kConfig, "--replica: for --store etcd=… only");
  }
  options.etcd_password_file = typed.store.password_file;
  options.opens_moved = typed.store.force;
  options.insecure_file_modes = typed.insecure_file_modes;
  options.tenants = typed.tenants;
  options.confinement = typed.confinement;
  options.as_kcp = typed.as_kcp;
  options.tracing = typed.tracing;
  if (auto right = understand(options.tracing); !right) {
    return fail(std::move(right.error()));
  }
  return options;
}

/// --validate.
int look(const std::string& level, const server::ShardOptions& options) {
  server::ConfigCheck check;
  if (level != "syntax") {
    check = server::check_files(options);
  }
  if (level == "deep" && !check.has_error()) {
    check = server::joined(std::move(check), server::check_peers(options));
  }
  std::fputs(server::report_text(check, "shard " + options.name).c_str(), stdout);
  return check.has_error() ? 1 : 0;
}

}  // namespace

CommandAbout shard_about() {
  Options options;
  return {
      "kintsugi shard --join DIR --name NAME [options]",
      "Runs an embedded shard in the foreground: a Kubernetes-style API server for logical "
      "clusters.\nIt joins the installation in DIR (see `kintsugi up`), keeps its data in "
      "DIR/shards/NAME and\nregisters itself with the root shard. SIGTERM ends it in order. Its "
      "certificate and CAs are read again when\ntheir files change, and on SIGHUP.",
      {},
      without_setters(flag_table(options))};
}

int run_shard(const std::vector<std::string>& arguments) {
  Options typed;
  if (const auto status = take_options("shard", flag_table(typed), shard_about, arguments)) {
    return *status;
  }
  auto options = understood(typed);
  if (!options) {
    return complain("shard", options.error(), 2);
  }
  const bool looks = !typed.validate.empty();
  if (auto written = use(looks ? LogOptions{typed.log.level, typed.log.format, ""} : typed.log);
      !written) {
    return complain("shard", written.error());
  }
  if (looks) {
    return look(typed.validate, *options);
  }
  if (auto joined = server::check_join_folder(options->layout); !joined) {
    return complain("shard", joined.error());
  }
  return server::run_shard_program(std::move(*options));
}

}  // namespace kintsugi::cmd
