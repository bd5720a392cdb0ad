#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/supervisor.h"
#include "cmd/kintsugi/tenant_options.h"
#include "net/loop.h"
#include "net/signals.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "server/encryption.h"
#include "server/files.h"
#include "server/kubeconfig.h"
#include "server/layout.h"
#include "server/pki.h"

namespace kintsugi::cmd {
namespace {

constexpr Duration kProbePause = milliseconds(20);
constexpr Duration kStopPatience = seconds(35);
constexpr const char* kClouds[] = {"aws", "gcp", "azure"};

struct Options {
  std::string dir = ".kintsugi";
  std::uint16_t port = 6443;
  std::string bind = "127.0.0.1";
  std::uint32_t shards = 3;
  std::uint32_t shard_loops = 1;
  std::vector<std::string> regions = {"eu-west-1", "us-east-1", "ap-south-1"};
  std::string store = "lmdb";
  std::uint16_t admin_port = 0;
  std::string wildcard = "serve";
  std::string consumers = "ignored";
  TenantOptions tenants;
  bool loopback_allowed = false;  ///< nobody asked for that
};

FlagTable flag_table(Options& options) {
  return {
      {"Installation",
       {{"dir", "DIR", ".kintsugi",
         "folder of the installation; made when missing, reused when there", into(options.dir)},
        {"shards", "N", "3", "number of shards: root, shard-1, shard-2, …", into(options.shards)},
        {"shard-loops", "N", "1", "threads of each shard that serve requests",
         into(options.shard_loops)},
        {"regions", "A,B,…", "eu-west-1,us-east-1,ap-south-1",
         "region labels, given to the shards in turn", into(options.regions)},
        {"store", "lmdb", "lmdb", "store of shards and proxy", into(options.store)}}},
      {"Addresses",
       {{"port", "PORT", "6443", "port of the proxy", into(options.port)},
        {"bind", "ADDRESS", "127.0.0.1", "address that the proxy listens on", into(options.bind)},
        {"admin-port", "PORT", "0",
         "TCP port of the proxy's admin listener on 127.0.0.1, for the admin's certificate; 0: "
         "only run/admin.sock",
         into(options.admin_port)}}},
      {"As kcp does",
       {{"wildcard", "serve|deny", "serve",
         "what the proxy does with /clusters/*: merges all shards, or refuses as kcp does",
         into(options.wildcard)},
        {"consumers", "ignored|required", "ignored",
         "endpoints of slices: of every selected shard, or as kcp of those with a consumer",
         into(options.consumers)}}},
      tenant_flags(options.tenants, "127.0.0.0/8,::1 if --bind is one of them, else none")};
}

/// What runs on one machine for one developer has its webhooks and issuers there, too.
void allow_loopback(Options& options) {
  const auto bound = net::canonical_ip(options.bind);
  const bool local = options.bind == "localhost" ||
                     (bound && (options.bind == "::1" || net::ip_text(*bound).starts_with("127.")));
  if (local && options.tenants.outgoing_allow.empty()) {
    options.tenants.outgoing_allow = {"127.0.0.0/8", "::1"};
    options.loopback_allowed = true;
  }
}

/// What is wrong with an option that names one of a few things; "" if nothing is.
std::string unknown_choice(const Options& options) {
  struct Choice {
    const char* name;
    const std::string& value;
    std::vector<std::string> known;
  };
  const Choice choices[] = {{"store", options.store, {"lmdb"}},
                            {"wildcard", options.wildcard, {"serve", "deny"}},
                            {"consumers", options.consumers, {"ignored", "required"}}};
  for (const auto& [name, value, known] : choices) {
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      return std::string("--") + name + ": \"" + value +
             "\" is not a choice that this version has; known: " + join(known, ", ");
    }
  }
  return "";
}

std::string shard_name(std::uint32_t index) {
  return index == 0 ? "root" : "shard-" + std::to_string(index);
}

/// The running installation: everything between the first fork and the last wait.
class Installation {
 public:
  Installation(Options options, server::Layout layout)
      : options_(std::move(options)),
        layout_(std::move(layout)),
        loop_("up"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP, SIGCHLD},
                 [this](int number) { on_signal(number); }),
        supervisor_(loop_, self_path(),
                    {[this](const std::string& name, int status) { on_ended(name, status); }}),
        probe_timer_(loop_) {}

  int run() {
    if (auto result = start(); !result) {
      return complain("up", std::string(result.error().message()));
    }
    loop_.run();
    ::unlink(layout_.ready_file().c_str());
    return exit_status_;
  }

 private:
  static std::string self_path() {
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
    return {path, length > 0 ? static_cast<std::size_t>(length) : 0};
  }

  Expected<void> start() {
    net::TlsParams tls;
    tls.ca_file = server::Pki(layout_.pki()).certificate("serving-ca");
    auto context = net::TlsContext::client(tls);
    if (!context) {
      return fail(std::move(context.error()));
    }
    tls_ = std::move(*context);
    for (std::uint32_t i = 0; i < options_.shards; ++i) {
      const std::string name = shard_name(i);
      const std::string labels =
          "region=" + options_.regions[i % options_.regions.size()] + ",cloud=" + kClouds[i % 3];
      std::vector<std::string> arguments = {
          "shard",  "--join",  layout_.dir,
          "--name", name,      "--labels",
          labels,   "--loops", std::to_string(options_.shard_loops)};
      for (std::string& more : options_.tenants.arguments()) {
        arguments.push_back(std::move(more));
      }
      auto result = supervisor_.start(
          {name, std::move(arguments), layout_.log_file(name), layout_.pid_file(name)});
      if (!result) {
        return result;
      }
      waiting_.push_back(name);
    }
    auto result = supervisor_.start({"proxy",
                                     {"proxy", "--config", layout_.proxy_config()},
                                     layout_.log_file("proxy"),
                                     layout_.pid_file("proxy")});
    if (!result) {
      return result;
    }
    waiting_.emplace_back("proxy");
    if (::isatty(STDERR_FILENO) == 1) {
      std::fprintf(stderr, "starting a proxy and %u shards in %s …\n", options_.shards,
                   layout_.dir.c_str());
    }
    probe();
    return {};
  }

  /// Asks /readyz of the first process that has not answered yet; then the next, until all have.
  void probe() {
    if (stopping_) {
      return;
    }
    if (waiting_.empty()) {
      on_ready();
      return;
    }
    const std::string name = waiting_.front();
    std::uint16_t port = options_.port;
    if (name != "proxy") {
      const auto text = server::read_file(layout_.shard_port(name));
      port = text
                 ? parse_decimal<std::uint16_t>(trim(text->substr(0, text->find('\n')))).value_or(0)
                 : 0;
    }
    if (port == 0) {
      probe_timer_.start(kProbePause, [this] { probe(); });
      return;
    }
    net::UpstreamParams params;
    params.url = {"https",
                  name == "proxy" && options_.bind != "0.0.0.0" ? options_.bind : "127.0.0.1", port,
                  ""};
    params.tls = tls_;
    params.connect_timeout = seconds(1);
    call_.reset();
    upstream_ = net::Upstream::make(loop_, std::move(params));
    net::FetchRequest request;
    request.target = "/readyz";
    request.timeout = seconds(1);
    call_ = net::fetch(loop_, *upstream_, std::move(request),
                       [this](Expected<net::FetchResponse> response) {
                         if (response && response->status == 200) {
                           waiting_.erase(waiting_.begin());
                           probe_timer_.start(Duration(0), [this] { probe(); });
                         } else {
                           probe_timer_.start(kProbePause, [this] { probe(); });
                         }
                       });
  }

  void on_ready() {
    call_.reset();
    upstream_.reset();
    if (auto result = server::write_file(layout_.ready_file(), "ready\n"); !result) {
      log_error("cannot write the ready file", {{"error", result.error().to_string()}});
    }
    ready_ = true;
    const std::string config = layout_.admin_kubeconfig();
    const std::string last = shard_name(options_.shards - 1);
    const std::string shards =
        options_.shards == 1
            ? "one shard (" + last + ")"
            : std::to_string(options_.shards) + " shards (" + shard_name(0) + " … " + last + ")";
    std::printf(
        "Kintsugi is ready: a proxy at https://%s:%u and %s.\n\n"
        "In another terminal:\n\n"
        "  export KUBECONFIG=%s\n"
        "  kubectl get shards\n"
        "  kubectl create -f - <<'EOF'\n"
        "  {\"apiVersion\": \"tenancy.kcp.io/v1alpha1\", \"kind\": \"Workspace\", \"metadata\": "
        "{\"name\": \"demo\"}}\n"
        "  EOF\n"
        "  kubectl get workspaces\n"
        "  kubectl --server=https://%s:%u/clusters/root:demo create configmap hello "
        "--from-literal=who=world\n\n"
        "Logs are in %s. Ctrl-C stops everything; the data stays in %s.\n",
        options_.bind.c_str(), options_.port, shards.c_str(), config.c_str(), options_.bind.c_str(),
        options_.port, layout_.logs().c_str(), layout_.dir.c_str());
    if (options_.loopback_allowed) {
      std::printf(
          "\nConversion webhooks and token issuers of workspaces may be on this machine "
          "(--outgoing-allow %s).\n",
          join(options_.tenants.outgoing_allow, ",").c_str());
    }
    std::fflush(stdout);
  }

  void on_signal(int number) {
    if (number == SIGCHLD) {
      supervisor_.reap();
      return;
    }
    if (number == SIGHUP) {
      return;
    }
    stop(0);
  }

  void on_ended(const std::string& name, int status) {
    log_warn("process ended",
             {{"process", name},
              {"cause", WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                            : "exit " + std::to_string(WEXITSTATUS(status))}});
    if (!ready_ && !stopping_ && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      complain("up", name + " could not start: " + last_line(layout_.log_file(name)));
      stop(1);
    }
  }

  static std::string last_line(const std::string& path) {
    const auto text = server::read_file(path);
    if (!text) {
      return path + " tells why";
    }
    std::string_view rest = trim(*text);
    while (!rest.empty() && rest.back() == '\n') {
      rest.remove_suffix(1);
    }
    return std::string(rest.substr(rest.rfind('\n') + 1));
  }

  void stop(int status) {
    if (stopping_) {
      return;
    }
    stopping_ = true;
    exit_status_ = status;
    ::unlink(layout_.ready_file().c_str());
    probe_timer_.cancel();
    call_.reset();
    if (::isatty(STDERR_FILENO) == 1) {
      std::fputs("\nstopping …\n", stderr);
    }
    supervisor_.stop_all(kStopPatience, [this] { loop_.stop(); });
  }

  Options options_;
  server::Layout layout_;
  net::Loop loop_;
  net::Signals signals_;
  Supervisor supervisor_;
  net::Timer probe_timer_;
  std::shared_ptr<net::TlsContext> tls_;
  std::unique_ptr<net::Upstream> upstream_;
  std::unique_ptr<net::Call> call_;
  std::vector<std::string> waiting_;
  bool ready_ = false, stopping_ = false;
  int exit_status_ = 0;
};

std::string proxy_config_text(const Options& options, const server::Layout& layout) {
  const server::Pki pki(layout.pki());
  const std::string url = "https://" +
                          (options.bind == "0.0.0.0" ? std::string("127.0.0.1") : options.bind) +
                          ":" + std::to_string(options.port);
  std::string text =
      "# Written by `kintsugi up` at each start.\n"
      "apiVersion: kintsugi.dev/v1alpha1\n"
      "kind: ProxyConfiguration\n"
      "external_url: " +
      url +
      "\n"
      "data_dir: " +
      layout.proxy_data() +
      "\n"
      "listener:\n"
      "  address: " +
      options.bind +
      "\n"
      "  port: " +
      std::to_string(options.port) +
      "\n"
      "  cert_file: " +
      pki.certificate("proxy") +
      "\n"
      "  key_file: " +
      pki.key("proxy") +
      "\n"
      "authentication:\n"
      "  client_ca_file: " +
      pki.certificate("client-ca") +
      "\n"
      "  workspaces: true\n"
      "  on_failure: pass\n"  // ServiceAccounts of workspaces with issuers: the shard knows them
      "topology:\n"
      "  source: kcp\n"
      "  root_kubeconfig: " +
      layout.shard_kubeconfig("root") +
      "\n"
      "  shards_kubeconfig: " +
      layout.shard_kubeconfig("root") +
      "\n"
      "backend:\n"
      "  ca_file: " +
      pki.certificate("serving-ca") +
      "\n"
      "  cert_file: " +
      pki.certificate("proxy-requestheader") +
      "\n"
      "  key_file: " +
      pki.key("proxy-requestheader") +
      "\n"
      "endpoint_slice:\n"
      "  mode: proxied\n"
      "  consumers: " +
      options.consumers +
      "\n"
      "wildcard: " +
      options.wildcard + "\n" + options.tenants.config_text() +
      "admin:\n"
      "  socket: " +
      layout.admin_socket() + "\n";
  if (options.admin_port != 0) {
    text += "  bind: 127.0.0.1:" + std::to_string(options.admin_port) + "\n";
  }
  return text;
}

Expected<void> prepare(const Options& options, const server::Layout& layout) {
  for (const std::string& folder :
       {layout.dir, layout.run(), layout.logs(), layout.pki(), layout.dir + "/proxy"}) {
    if (auto result = server::make_directories(folder); !result) {
      return result;
    }
  }
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    if (auto result = server::make_directories(layout.shard(shard_name(i))); !result) {
      return result;
    }
  }
  const server::Pki pki(layout.pki());
  if (auto result = pki.ensure({options.bind, "127.0.0.1", "::1", "localhost"}); !result) {
    return result;
  }
  if (auto result = server::ensure_encryption_config(layout); !result) {
    return result;
  }
  auto ca = server::read_file(pki.certificate("serving-ca"));
  auto certificate = server::read_file(pki.certificate("admin"));
  auto key = read_secret_file(pki.key("admin"));
  if (!ca || !certificate || !key) {
    return fail(Errc::kIo, "the certificates in " + layout.pki() + " cannot be read");
  }
  const std::string url = "https://" +
                          (options.bind == "0.0.0.0" ? std::string("127.0.0.1") : options.bind) +
                          ":" + std::to_string(options.port);
  auto written = server::write_file(
      layout.admin_kubeconfig(),
      server::render_kubeconfig({{"root", url + "/clusters/root"}, {"base", url}}, "kcp-admin", *ca,
                                *certificate, *key),
      0600);
  if (!written) {
    return written;
  }
  // A root kubeconfig of an earlier run stays: the root shard keeps its port when it can.
  return server::write_file(layout.proxy_config(), proxy_config_text(options, layout));
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
  Options options;
  auto parsed = parse_flags(flag_table(options), arguments);
  if (!parsed) {
    return wrong_usage("up", std::string(parsed.error().message()));
  }
  if (parsed->help) {
    std::fputs(help_text(up_about()).c_str(), stdout);
    return 0;
  }
  if (!parsed->positional.empty()) {
    return complain("up", "unexpected argument \"" + parsed->positional.front() + "\"", 2);
  }
  if (options.shards == 0 || options.shards > 64) {
    return complain("up", "--shards: must be 1 to 64", 2);
  }
  if (options.shard_loops == 0 || options.shard_loops > 64) {
    return complain("up", "--shard-loops: must be 1 to 64", 2);
  }
  if (options.regions.empty()) {
    return complain("up", "--regions: needs at least one region", 2);
  }
  if (options.port == 0) {
    return complain("up", "--port: 0 is no port", 2);
  }
  if (const std::string fault = unknown_choice(options); !fault.empty()) {
    return complain("up", fault, 2);
  }
  allow_loopback(options);
  if (auto valid = check_tenant_options(options.tenants); !valid) {
    return complain("up", std::string(valid.error().message()), 2);
  }
  const server::Layout layout{server::absolute_path(options.dir)};
  // The lock comes first: what a running installation uses is not touched.
  if (auto result = server::make_directories(layout.run()); !result) {
    return complain("up", std::string(result.error().message()));
  }
  const std::string lock_path = layout.run() + "/lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return complain("up", layout.dir + " is in use by another `kintsugi up`");
  }
  if (auto result = prepare(options, layout); !result) {
    return complain("up", std::string(result.error().message()));
  }
  ::unlink(layout.ready_file().c_str());
  return Installation(std::move(options), layout).run();
}

}  // namespace kintsugi::cmd
