// The process of `kintsugi dispatcher`.
#include "server/dispatcher_program.h"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "base/last_resort.h"
#include "base/log.h"
#include "base/log_output.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/service_notices.h"
#include "net/signals.h"
#include "net/watchdog.h"
#include "server/files.h"
#include "server/internal/dispatcher_metrics.h"
#include "server/internal/file_watch.h"
#include "server/internal/worker_pages.h"
#include "server/program.h"
#include "serving/answer.h"
#include "serving/metrics_answer.h"
#include "workers/eventing/dispatcher/dispatcher.h"
#include "workers/eventing/kafka/kafka_consumer.h"

namespace kintsugi::server {
namespace {

constexpr int kDispatcherKilled = 143;
constexpr Duration kContractPoll = seconds(2);
constexpr Duration kLastWords = seconds(5);  // of consumers that leave, after the drain
constexpr Duration kThreadsLook = milliseconds(20), kThreadsEnd = seconds(2);

class DispatcherProcess final : private http::Handler {
 public:
  explicit DispatcherProcess(DispatcherOptions options)
      : options_(std::move(options)),
        loop_("dispatcher"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }),
        dispatcher_(loop_, options_.settings),
        watch_(loop_, kContractPoll, [this](const std::vector<std::string>&) { read(); }) {}

  Expected<void> start() {
    if (!options_.status.address.empty()) {
      net::ListenerParams params;
      params.address = options_.status.address;
      params.port = options_.status.port;
      auto opened = net::Listener::open(loop_, std::move(params), *this);
      if (!opened) {
        return fail(std::move(opened.error()).at("--status-address"));
      }
      listener_ = std::move(*opened);
      log_info("listens",
               {{"what", "status"},
                {"address", address_text({options_.status.address, listener_->port()})}});
    }
    watch_.set_files({options_.contract});
    read();
    return {};
  }

  int run() {
    const net::Watchdog watchdog(net::watchdog_of_service());
    net::service_notices().ready("runs");
    loop_.run();
    return 0;
  }

 private:
  void on_signal(int number) {
    if (number == SIGHUP) {
      reopen_log_file();
      read();
    } else if (std::exchange(stopping_, true)) {
      ::_exit(kDispatcherKilled);
    } else {
      stop();
    }
  }

  void read() {
    const auto text = read_file(options_.contract);
    if (text) {
      unread_.clear();
      dispatcher_.take(*text);
    } else {
      unread_ = text.error().message();
      log_warn("the contract cannot be read", {{"why", unread_}});
    }
  }

  void stop() {
    net::service_notices().stopping();
    log_info("stops", {});
    dispatcher_.stop([this] { end_threads(loop_.now() + kThreadsEnd); });
    patience_.start(options_.settings.drain + kLastWords, [this] {
      log_warn("not everything has ended in time", {});
      ::_exit(0);
    });
  }

  /// Threads of consumers that have left their groups have little to do.
  void end_threads(TimePoint until) {
    if (workers::kafka_ends_under_way() == 0 || loop_.now() >= until) {
      const bool ended = workers::kafka_ends_under_way() == 0;
      loop_.stop();
      if (!ended) {
        ::_exit(0);  // they would be cut off in the middle
      }
      return;
    }
    patience_.start(kThreadsLook, [this, until] { end_threads(until); });
  }

  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override {
    if (head.method != "GET" && head.method != "HEAD") {
      return serving::answer_text(head, stream, 405, "405 method not allowed\n");
    }
    const std::string path = head.target.substr(0, head.target.find('?'));
    if (path == "/status") {
      krm::Json status = dispatcher_.status();
      if (!unread_.empty()) {
        status["contract"] = unread_;
      }
      return serving::answer_json(head, stream, 200, status.dump() + "\n");
    }
    if (path == "/metrics") {
      return serving::answer_metrics(head, stream, dispatcher_metrics_text(dispatcher_));
    }
    const char* const not_ready = stopping_                    ? "it stops"
                                  : dispatcher_.has_contract() ? ""
                                                               : "there is no contract";
    const HealthPage page = health_page(
        head.target, {RoleHealth{.role = "dispatcher", .alive = true, .not_ready = not_ready}});
    return serving::answer_text(head, stream, page.status, page.body);
  }

  DispatcherOptions options_;
  net::Loop loop_;
  net::Signals signals_;
  workers::Dispatcher dispatcher_;
  FileWatch watch_;
  std::string unread_;  // why the contract's file cannot be read
  std::unique_ptr<net::Listener> listener_;
  net::Timer patience_{loop_};
  bool stopping_ = false;
};

}  // namespace

int run_dispatcher_program(DispatcherOptions options) {
  prepare_for_no_memory();
  raise_descriptor_limit();
  DispatcherProcess process(std::move(options));
  if (auto started = process.start(); !started) {
    return complain("dispatcher", started.error());
  }
  return process.run();
}

}  // namespace kintsugi::server
