// An installation on one machine, from its files to the last wait for a child.
#include "server/up_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "auth/audit_log.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/strings.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/service_notices.h"
#include "net/signals.h"
#include "net/tls.h"
#include "server/files.h"
#include "server/internal/child_process.h"
#include "server/internal/far_link.h"
#include "server/internal/hang_watch.h"
#include "server/internal/join_service.h"
#include "server/internal/pki.h"
#include "server/internal/process_socket.h"
#include "server/internal/ready_probe.h"
#include "server/internal/remedies.h"
#include "server/internal/supervisor.h"
#include "server/internal/up_broker.h"
#include "server/internal/up_etcd.h"
#include "server/internal/up_files.h"
#include "server/internal/up_report.h"
#include "server/internal/up_welcome.h"
#include "server/internal/up_workers.h"
#include "server/kubeconfig.h"
#include "server/program.h"
#include "server/shard_files.h"

namespace kintsugi::server {
namespace {

constexpr Duration kStopPatience = seconds(35);
constexpr Duration kRenewal = seconds(60);
constexpr Duration kAbortPatience = seconds(5);  ///< of a process that hangs
constexpr Duration kFirstTold = seconds(5), kToldAgain = seconds(10);
constexpr int kLate = 3;  ///< exit status
constexpr const char* kProxy = "proxy";
constexpr const char* kClouds[] = {"aws", "gcp", "azure"};

/// For people alone: nothing of it is in a log.
void tell_terminal(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 1) {
    std::fputs(text.c_str(), stderr);
  }
}

std::string last_line(const std::string& path) {
  const auto text = read_file(path);
  if (!text) {
    return path + " tells why";
  }
  std::string_view rest = trim(*text);
  while (!rest.empty() && rest.back() == '\n') {
    rest.remove_suffix(1);
  }
  return std::string(rest.substr(rest.rfind('\n') + 1));
}

/// As `kintsugi shard` takes them.
std::vector<std::string> revocation_arguments(const ShardRevocations& lists) {
  std::vector<std::string> out;
  const auto add = [&out](const char* flag, const std::string& value) {
    if (!value.empty()) {
      out.insert(out.end(), {flag, value});
    }
  };
  add("--client-crl-file", lists.client_file);
  add("--requestheader-client-crl-file", lists.request_header_file);
  add("--backend-crl-file", lists.backend_file);
  if (!lists.rules.stale_is_refused) {
    add("--crl-stale", "warn");
  }
  if (lists.rules.is_required) {
    out.emplace_back("--crl-required");
  }
  return out;
}

/// The running installation: everything between the first fork and the last wait.
class Installation {
 public:
  explicit Installation(UpOptions options)
      : options_(std::move(options)),
        loop_("up"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP, SIGCHLD},
                 [this](int number) { on_signal(number); }),
        supervisor_(loop_, own_program(),
                    {[this](const std::string& name, int status) { on_ended(name, status); }}) {}

  Expected<void> start() {
    if (auto prepared = prepare_workers(); !prepared) {
      return prepared;
    }
    if (auto started = start_etcd(); !started) {
      return started;
    }
    if (auto started = start_broker(); !started) {
      return started;
    }
    if (auto started = start_shards(); !started) {
      return started;
    }
    if (auto started = start_proxies(); !started) {
      return started;
    }
    tell_terminal("starting " + proxies_of(options_) + " and " + std::to_string(options_.shards) +
                  " shards in " + options_.layout.dir + " …\n");
    return start_probe();
  }

  int run() {
    loop_.run();
    ::unlink(options_.layout.ready_file().c_str());
    return exit_status_;
  }

 private:
  /// @param socket  where it is asked whether it is ready
  Expected<void> start_server(const std::string& name, std::vector<std::string> arguments,
                              std::string socket) {
    if (::geteuid() == 0) {
      arguments.emplace_back("--allow-root");  // who types `up` is whom it runs as
    }
    return start_process(name, std::move(arguments), std::move(socket));
  }

  Expected<void> start_process(const std::string& name, std::vector<std::string> arguments,
                               std::string socket) {
    for (std::string& more : options_.log(options_.layout.log_file(name))) {
      arguments.push_back(std::move(more));
    }
    return supervisor_.start({name,
                              std::move(arguments),
                              options_.layout.log_file(name),
                              options_.layout.pid_file(name),
                              {},
                              std::move(socket)});
  }

  /// Before the shards, which wait for it; it ends after them.
  Expected<void> start_etcd() {
    if (!options_.uses_etcd || !options_.etcd_urls.empty()) {
      return {};
    }
    auto members = prepare_etcd(options_);
    if (!members) {
      return fail(std::move(members.error()));
    }
    for (EtcdProcess& one : *members) {
      auto started =
          supervisor_.start({one.name, std::move(one.arguments), options_.layout.log_file(one.name),
                             options_.layout.pid_file(one.name), std::move(one.program)});
      if (!started) {
        return started;
      }
    }
    return {};
  }

  /// Before the worker that connects to it; it ends after that.
  Expected<void> start_broker() {
    if (!runs_broker(options_)) {
      return {};
    }
    auto broker = prepare_broker(options_);
    if (!broker) {
      return fail(std::move(broker.error()));
    }
    return supervisor_.start({"broker", std::move(broker->arguments),
                              options_.layout.log_file("broker"),
                              options_.layout.pid_file("broker"), std::move(broker->program)});
  }

  Expected<void> start_shards() {
    const auto store = store_arguments(options_);
    if (!store) {
      return fail(store.error().clone());
    }
    for (std::uint32_t i = 0; i < options_.shards; ++i) {
      std::vector<std::string> arguments = {
          "shard",
          "--join",
          options_.layout.dir,
          "--name",
          shard_name(i),
          "--labels",
          "region=" + region_of(options_, i) + ",cloud=" + kClouds[i % std::size(kClouds)],
          "--loops",
          std::to_string(options_.shard_loops)};
      arguments.insert(arguments.end(), store->begin(), store->end());
      for (std::string& more : revocation_arguments(options_.revocations)) {
        arguments.push_back(std::move(more));
      }
      for (std::string& more : options_.tenants.arguments()) {
        arguments.push_back(std::move(more));
      }
      for (std::string& more : options_.limits.arguments(options_.shards + options_.proxies - 1)) {
        arguments.push_back(std::move(more));
      }
      arguments.insert(arguments.end(), options_.trace_arguments.begin(),
                       options_.trace_arguments.end());
      auto started = start_server(shard_name(i), std::move(arguments),
                                  options_.layout.shard_admin_socket(shard_name(i)));
      if (!started) {
        return started;
      }
    }
    return {};
  }

  /// Links between regions, of which proxies have ends.
  Expected<FarPorts> open_links() {
    FarPorts ports;
    if (!options_.regions_far) {
      return ports;
    }
    FarLink::Params params;
    params.delay = milliseconds(options_.regions_rtt) / 2;
    params.lost_per_mille = options_.regions_lost_per_mille;
    if (auto opened = open_link(params, ports.shards); !opened) {
      return fail(std::move(opened.error()));
    }
    if (options_.uses_etcd && options_.etcd_urls.empty()) {
      const auto members = ports_of_etcd(options_);
      if (!members) {
        return fail(members.error().clone());
      }
      for (const std::uint16_t member : *members) {
        params.target = member;
        if (auto opened = open_link(params, ports.etcd.emplace_back()); !opened) {
          return fail(std::move(opened.error()));
        }
      }
    }
    return ports;
  }

  Expected<void> open_link(const FarLink::Params& params, std::uint16_t& port) {
    auto link = FarLink::open(loop_, params);
    if (!link) {
      return fail(std::move(link.error()));
    }
    port = (*link)->port();
    links_.push_back(std::move(*link));
    return {};
  }

  Expected<void> start_proxies() {
    const auto links = open_links();
    if (!links) {
      return fail(links.error().clone());
    }
    auto done = write_proxy_configs(options_, *links);
    for (std::uint32_t i = 0; done && i < options_.proxies; ++i) {
      const std::string name = proxy_name(i);
      done = start_server(name, {"proxy", "--config", options_.layout.proxy_config(name)},
                          options_.layout.admin_socket(name));
    }
    return done;
  }

  /// Shards in their order, then the proxies.
  Expected<void> start_probe() {
    net::TlsParams tls;
    tls.ca_file = Pki(options_.layout.pki()).certificate("serving-ca");
    auto context = net::TlsContext::client(tls);
    if (!context) {
      return fail(std::move(context.error()));
    }
    std::vector<ReadyProbe::Target> targets;
    for (std::uint32_t i = 0; i < options_.shards; ++i) {
      targets.push_back({"127.0.0.1",
                         [this, i] { return last_port(options_.layout, shard_name(i), {}); },
                         shard_name(i)});
    }
    for (std::uint32_t i = 0; i < options_.proxies; ++i) {
      targets.push_back(
          {local_host(options_), [this, i] { return port_of_proxy(options_, i); }, proxy_name(i)});
    }
    probe_ = std::make_unique<ReadyProbe>(loop_, std::move(*context), std::move(targets),
                                          [this] { on_served(); });
    admin_.emplace(loop_, options_.layout.up_admin_socket(), report_.pages());
    if (options_.hang_timeout != 0) {
      hangs_.emplace(loop_, HangWatch::Params{[this] { return supervisor_.states(); },
                                              [this](const std::string& name) { on_hang(name); },
                                              seconds(options_.hang_timeout)});
    }
    waiting_.start(kFirstTold, [this] { tell_who_is_waited_for(); });
    if (options_.ready_timeout != 0) {
      patience_.start(seconds(options_.ready_timeout), [this] { give_up(); });
    }
    return {};
  }

  /// Shards that have data here and do not run.
  [[nodiscard]] std::vector<std::string> left_out() const {
    std::vector<std::string> out;
    for (std::uint32_t i = options_.shards; file_exists(options_.layout.shard_data(shard_name(i)));
         ++i) {
      out.push_back(shard_name(i));
    }
    return out;
  }

  /// waiting_lines(); never, if all are ready by now, or the installation ends.
  void ask_who_is_waited_for(std::function<void(const std::vector<std::string>&)> then) {
    report_.ask([this, then = std::move(then)](const std::vector<UpProcess>& all) {
      if (ready_ || stopping_) {
        return;
      }
      std::vector<std::string> lines = waiting_lines(all, options_.layout);
      if (lines.empty()) {  // what stands behind it is not ready, or nobody has asked since
        const auto [name, why] = probe_ ? probe_->waits() : workers_->waits();
        lines = {waiting_line(name, why, options_.layout)};
      }
      const std::vector<std::string> missing = left_out();
      for (const std::string& shard : missing) {
        lines.push_back(left_out_line(shard, options_.shards,
                                      options_.shards + static_cast<unsigned>(missing.size()),
                                      options_.layout));
      }
      then(lines);
    });
  }

  void give_up() {
    ask_who_is_waited_for([this](const std::vector<std::string>& lines) {
      complain("up", "not ready after " + std::to_string(options_.ready_timeout) + " s, " +
                         join(lines, "; ") + " (--ready-timeout)");
      stop(kLate);
    });
  }

  /// Until all are ready: nobody looks at a start that says nothing and knows what to do (OP-202).
  void tell_who_is_waited_for() {
    ask_who_is_waited_for([this](const std::vector<std::string>& lines) {
      for (const std::string& line : lines) {
        complain("up", line);
      }
      net::service_notices().status(lines.front());
    });
    waiting_.start(kToldAgain, [this] { tell_who_is_waited_for(); });
  }

  void on_served() {
    probe_.reset();
    if (workers_ == nullptr) {
      on_ready();
    } else {
      workers_->begin();
    }
  }

  Expected<void> prepare_workers() {
    if (options_.workers.empty()) {
      return {};
    }
    UpWorkers::Events events;
    events.start = [this](const RoleNames& names) {
      return start_process(names.process(),
                           {"worker", "--config=" + options_.layout.worker_config(names.role)},
                           options_.layout.worker_health(names.role));
    };
    events.signal = [this](const std::string& process, int number) {
      supervisor_.signal(process, number);
    };
    events.tell = [](const std::string& text) { tell_terminal(text + "\n"); };
    events.done = [this](const Expected<void>& outcome) {
      if (outcome) {
        on_ready();
      } else {
        complain("up", outcome.error());
        stop(1);
      }
    };
    auto made = UpWorkers::make(loop_, options_, std::move(events));
    if (!made) {
      return fail(std::move(made.error()));
    }
    workers_ = std::move(*made);
    return {};
  }

  void on_ready() {
    if (auto written = write_file(options_.layout.ready_file(), "ready\n"); !written) {
      log_error("cannot write the ready file", {{"error", written.error().to_string()}});
    }
    ready_ = true;
    if (hangs_) {
      hangs_->ask_now();
    }
    waiting_.cancel();
    patience_.cancel();
    net::service_notices().ready("ready: a proxy at " + url_of_proxy(options_));
    print_welcome(options_);
    if (auto opened = open_joining(); !opened) {
      complain("up", "--join-bind: " + std::string(opened.error().message()));
      stop(1);
      return;
    }
    renew();
  }

  /// With the proxy's certificate: it is for this address, too.
  [[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> tls_of_joining() const {
    const Pki pki(options_.layout.pki());
    net::TlsParams tls;
    tls.certificate_file = pki.certificate(kProxy);
    tls.key_file = pki.key(kProxy);
    return net::TlsContext::server(tls);
  }

  Expected<void> open_joining() {
    if (options_.join_address.empty()) {
      return {};
    }
    auto audit = auth::AuditLog::open({options_.layout.log_file("join")});
    auto tls = tls_of_joining();
    if (!audit || !tls) {
      return fail(std::move(!audit ? audit.error() : tls.error()));
    }
    join_audit_ = std::move(*audit);
    JoinService::Params params;
    params.pki = options_.layout.pki();
    params.root = [this] {
      const auto access = read_kubeconfig(options_.layout.shard_kubeconfig("root"), "base");
      return access ? access->server : std::string();
    };
    params.proxy = [this] { return url_of_proxy(options_); };
    params.audit = [this](std::string line) { join_audit_->add(std::move(line)); };
    join_service_ = std::make_unique<JoinService>(std::move(params));
    net::ListenerParams listener;
    listener.address = options_.join_address;
    listener.port = options_.join_port;
    listener.tls = std::move(*tls);
    auto opened = net::Listener::open(loop_, std::move(listener), *join_service_);
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    joining_ = std::move(*opened);
    log_info("tokens are taken", {{"port", static_cast<int>(joining_->port())}});
    return {};
  }

  void on_signal(int number) {
    if (number == SIGCHLD) {
      supervisor_.reap();
    } else if (number == SIGHUP) {
      reopen_log_file();
      if (join_audit_ != nullptr) {
        join_audit_->reopen();
      }
      supervisor_.signal_programs(SIGHUP);  // their logs; and what they read again
      renew();
    } else {
      stop(0);
    }
  }

  /// Pairs of which a third of the life is over, now and every minute. Who uses them sees the files
  /// change.
  void renew() {
    const auto renewed = renew_certificates(options_);
    if (!renewed) {
      log_error("certificates cannot be renewed", {{"error", renewed.error().to_string()}});
    } else if (*renewed) {
      log_info("certificates renewed", {{"kubeconfig", options_.layout.admin_kubeconfig()}});
    }
    if (joining_ != nullptr) {
      if (auto tls = tls_of_joining(); tls) {
        joining_->set_tls(std::move(*tls));
      }
    }
    if (workers_ != nullptr) {
      workers_->renew();
    }
    renewal_.start(kRenewal, [this] { renew(); });
  }

  void on_hang(const std::string& name) {
    if (stopping_) {
      return;
    }
    log_error("a process does not answer any more: it is ended, and started again",
              {{"process", name}, {"seconds", options_.hang_timeout}});
    supervisor_.end_hung(name, kAbortPatience);
  }

  /// What cannot even start has the same fault again; what ends later is restarted.
  void on_ended(const std::string& name, int status) {
    log_warn("process ended", {{"process", name}, {"cause", how_child_ended(status)}});
    if (!ready_ && !stopping_ && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      complain("up",
               name + " could not start: " +
                   with_remedy(name, last_line(options_.layout.log_file(name)), options_.layout));
      stop(1);
    }
  }

  void stop(int status) {
    if (std::exchange(stopping_, true)) {
      return;
    }
    exit_status_ = status;
    net::service_notices().stopping();
    ::unlink(options_.layout.ready_file().c_str());
    waiting_.cancel();
    patience_.cancel();
    probe_.reset();
    if (workers_ != nullptr) {
      workers_->stop();
    }
    tell_terminal("\nstopping …\n");
    supervisor_.stop_all(kStopPatience, [this] { loop_.stop(); });
  }

  const UpOptions options_;
  net::Loop loop_;
  net::Signals signals_;
  Supervisor supervisor_;
  net::Timer renewal_{loop_}, waiting_{loop_}, patience_{loop_};
  std::vector<std::unique_ptr<FarLink>> links_;  ///< between regions
  std::unique_ptr<auth::AuditLog> join_audit_;
  std::unique_ptr<JoinService> join_service_;
  std::unique_ptr<net::Listener> joining_;  ///< null: nobody joins by a token
  UpReport report_{loop_, {[this] { return supervisor_.states(); }, [this] { return left_out(); }}};
  std::optional<ProcessSocket> admin_;
  std::unique_ptr<ReadyProbe> probe_;   ///< null: all are ready, or stopping
  std::unique_ptr<UpWorkers> workers_;  ///< null: none
  std::optional<HangWatch> hangs_;      ///< nullopt: nobody looks
  bool ready_ = false, stopping_ = false;
  int exit_status_ = 0;
};

}  // namespace

int run_up_program(UpOptions options) {
  // The lock comes first: what a running installation uses is not touched.
  const auto lock = lock_installation(options.layout);
  if (!lock) {
    return complain("up", lock.error());
  }
  if (auto prepared = prepare_installation(options); !prepared) {
    return complain("up", prepared.error());
  }
  Installation installation(std::move(options));
  if (auto started = installation.start(); !started) {
    return complain("up", started.error());
  }
  return installation.run();
}

}  // namespace kintsugi::server
