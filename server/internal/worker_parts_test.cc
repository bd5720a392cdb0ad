// What a worker's processes tell each other and whoever asks: over real sockets.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "net/signals.h"
#include "net/testing/support.h"
#include "server/files.h"
#include "server/internal/child_process.h"
#include "server/internal/worker_child.h"
#include "server/internal/worker_files.h"
#include "server/internal/worker_host.h"
#include "server/internal/worker_listeners.h"
#include "server/internal/worker_socket.h"

namespace kintsugi::server {
namespace {

using net::testing::run_until;

/// Says what it is told to; nothing where it hangs.
class Part final : public WorkerPart {
 public:
  Part(std::string role, std::string not_ready, std::string metrics, bool hangs = false)
      : health_{std::move(role), true, std::move(not_ready)},
        metrics_(std::move(metrics)),
        hangs_(hangs) {}
  [[nodiscard]] const std::string& role() const noexcept override { return health_.role; }
  void ask_health(std::function<void(RoleHealth)> done) override {
    hangs_ ? late_.push_back([done, this] { done(health_); }) : done(health_);
  }
  void ask_metrics(std::function<void(std::string)> done) override {
    hangs_ ? late_.push_back([done, this] { done(metrics_); }) : done(metrics_);
  }
  void ask_errors(std::function<void(HealthPage)> done) override {
    krm::Json list = krm::Json::array();
    list.push_back(krm::Json::object({{"at", "2"}, {"text", "late"}}));
    list.push_back(krm::Json::object({{"at", "1"}, {"text", "early"}}));
    const HealthPage page = health_.role == "bad" ? HealthPage{404, "no\n"} : errors_page(list);
    hangs_ ? late_.push_back([done, page] { done(page); }) : done(page);
  }
  /// Answers at last.
  void wake() {
    for (const auto& one : late_) {
      one();
    }
  }

 private:
  RoleHealth health_;
  std::string metrics_;
  bool hangs_;
  std::vector<std::function<void()>> late_;
};

class WorkerPartsTest : public ::testing::Test {
 protected:
  WorkerPartsTest() {
    char name[] = "/tmp/kintsugi-worker-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~WorkerPartsTest() override { std::filesystem::remove_all(folder_); }

  void serve(std::vector<WorkerPart*> parts, bool labels = true) {
    WorkerListeners::Params params;
    params.metrics.address = folder_ + "/m";
    params.health.address = folder_ + "/h";
    params.labels = labels;
    params.own_metrics = [] { return "own 1\n"; };
    params.patience = milliseconds(50);
    listeners_ = std::make_unique<WorkerListeners>(loop_, params, std::move(parts));
    const auto opened = listeners_->open();
    ASSERT_TRUE(opened) << opened.error().message();
  }
  std::pair<int, std::string> get(const std::string& socket, const std::string& target) {
    std::optional<std::pair<int, std::string>> got;
    SocketFetch fetch(loop_, folder_ + "/" + socket, target,
                      [&](int status, std::string body) { got.emplace(status, std::move(body)); });
    run_until(loop_, [&] { return got.has_value(); });
    return got.value_or(std::pair<int, std::string>(-1, ""));
  }
  RoleHealth health_of(WorkerPart& part) {
    std::optional<RoleHealth> got;
    part.ask_health([&](RoleHealth health) { got = std::move(health); });
    run_until(loop_, [&] { return got.has_value(); });
    return got.value_or(RoleHealth());
  }

  net::Loop loop_{"test"};
  std::string folder_;
  std::unique_ptr<WorkerListeners> listeners_;
};

TEST_F(WorkerPartsTest, RT_T105_HealthOfAllPartsIsOnePage) {
  Part good("good", "", "x 1\n"), bad("bad", "waits", "# TYPE x gauge\nx 2\n");
  serve({&good, &bad});
  EXPECT_EQ(get("h", "/readyz"),
            std::make_pair(503, std::string("[+]good ok\n[-]bad failed: waits\n"
                                            "readyz check failed\n")));
  EXPECT_EQ(get("h", "/readyz/good"), std::make_pair(200, std::string("ok")));
  EXPECT_EQ(get("h", "/readyz/bad").first, 503);
  EXPECT_EQ(get("h", "/livez").first, 200);
  EXPECT_EQ(get("h", "/healthz?verbose").first, 200);
  EXPECT_EQ(get("h", "/metrics").first, 404) << "it has an address of its own";
  EXPECT_EQ(get("m", "/readyz").first, 404);
  EXPECT_EQ(get("m", "/metrics"),
            std::make_pair(200, std::string("own{role=\"supervisor\"} 1\n# TYPE x gauge\n"
                                            "x{role=\"good\"} 1\nx{role=\"bad\"} 2\n")));
}

TEST_F(WorkerPartsTest, MR28_ErrorsOfARoleAreAPageBesideItsMetrics) {
  Part good("good", "", ""), bad("bad", "", ""), stuck("stuck", "", "", true);
  serve({&good, &bad, &stuck});
  const std::string page = R"({"errors":[{"at":"1","text":"early"},{"at":"2","text":"late"}]})"
                           "\n";
  EXPECT_EQ(get("m", "/debug/good/errors"), std::make_pair(200, page));
  EXPECT_EQ(get("m", "/debug/good/errors?x"), std::make_pair(200, page));
  EXPECT_EQ(get("m", "/debug/bad/errors"), std::make_pair(404, std::string("no\n")));
  EXPECT_EQ(get("m", "/debug/stuck/errors"),
            std::make_pair(503, std::string("role stuck does not answer\n")));
  EXPECT_EQ(get("m", "/debug/other/errors").first, 404);
  EXPECT_EQ(get("m", "/debug/good").first, 404);
  EXPECT_EQ(get("h", "/debug/good/errors").first, 404);
  stuck.wake();
}

TEST_F(WorkerPartsTest, OnePartAloneHasNoLabels) {
  Part good("good", "", "x 1\n");
  serve({&good}, false);
  EXPECT_EQ(get("m", "/metrics?x"), std::make_pair(200, std::string("own 1\nx 1\n")));
}

TEST_F(WorkerPartsTest, APartThatHangsIsNotReadyAndKeepsNobodyWaiting) {
  Part good("good", "", "x 1\n"), stuck("stuck", "", "x 2\n", true);
  serve({&good, &stuck});
  EXPECT_EQ(get("h", "/readyz?verbose").second,
            "[+]good ok\n[-]stuck failed: does not answer\nreadyz check failed\n");
  EXPECT_EQ(get("h", "/readyz/good").first, 200);
  EXPECT_EQ(get("m", "/metrics").second, "own{role=\"supervisor\"} 1\nx{role=\"good\"} 1\n");
  stuck.wake();  // nobody is there any more
}

TEST_F(WorkerPartsTest, AnAddressThatIsTakenIsNamed) {
  Part good("good", "", "");
  serve({&good});
  WorkerListeners::Params params;
  params.metrics.address = folder_ + "/m";
  params.own_metrics = [] { return ""; };
  WorkerListeners second(loop_, params, {&good});
  const auto opened = second.open();
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().message().starts_with("metrics_bind_address: " + folder_ + "/m: "))
      << opened.error().message();
}

TEST_F(WorkerPartsTest, WhereNobodyListensThereIsNoAnswer) {
  EXPECT_EQ(get("none", "/readyz"), std::make_pair(0, std::string()));
  EXPECT_EQ(get(std::string(200, 'x'), "/readyz"), std::make_pair(0, std::string()));
}

TEST(SocketFetch, AnAnswerIsWholeOrNone) {
  const auto none = std::make_pair(0, std::string());
  EXPECT_EQ(read_answer("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok"),
            std::make_pair(200, std::string("ok")));
  EXPECT_EQ(read_answer("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"),
            std::make_pair(503, std::string()));
  for (const char* text :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nok",
        "HTTP/1.1 2x0 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok"}) {
    EXPECT_EQ(read_answer(text), none) << text;
  }
}

/// A real shell as the process of a role.
class WorkerChildTest : public WorkerPartsTest {
 protected:
  void start(const std::string& script) {
    child_.emplace(loop_, WorkerChild::Params{.role = "a",
                                              .program = "/bin/sh",
                                              .arguments = {"-c", script},
                                              .health_socket = folder_ + "/h",
                                              .metrics_socket = folder_ + "/m"});
    child_->start();
  }
  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
         pid = ::waitpid(-1, &status, WNOHANG)) {
      if (pid == child_->pid()) {
        ended_.push_back(how_child_ended(status));
        child_->on_ended(status);
      }
    }
  }
  std::vector<std::string> ended_;
  net::Signals signals_{loop_, {SIGCHLD}, [this](int) { reap(); }};
  std::optional<WorkerChild> child_;
};

TEST_F(WorkerChildTest, RT_T002_AChildThatIsKilledIsStartedAgain) {
  start("exec sleep 100");
  const pid_t first = child_->pid();
  ASSERT_GT(first, 1);
  EXPECT_EQ(health_of(*child_).not_ready, "does not answer") << "it has no socket yet";
  const TimePoint begin = Clock::now();
  child_->send(SIGKILL);
  ASSERT_TRUE(run_until(loop_, [&] { return ended_.size() == 1; }));
  EXPECT_EQ(ended_.front(), "signal 9");
  EXPECT_EQ(health_of(*child_).not_ready, "its process ended");
  ASSERT_TRUE(run_until(loop_, [&] { return child_->pid() != 0; }));
  EXPECT_NE(child_->pid(), first);
  EXPECT_EQ(child_->restarts(), 1U);
  EXPECT_LT(Clock::now() - begin, seconds(2));
}

TEST_F(WorkerChildTest, RT4_AChildThatWasStoppedStaysSo) {
  start("exit 70");
  child_->stop();
  ASSERT_TRUE(run_until(loop_, [&] { return ended_.size() == 1; }));
  EXPECT_EQ(ended_.front(), "exit 70");
  EXPECT_EQ(health_of(*child_).not_ready, "is stopping");
  std::optional<std::string> page;
  child_->ask_metrics([&](std::string text) { page = std::move(text); });
  EXPECT_EQ(page, "");
}

TEST_F(WorkerChildTest, HealthAndMetricsOfAChildComeOverItsSockets) {
  Part good("a", "waits", "x 1\n");
  serve({&good}, false);  // in the place of the child
  start("exec sleep 100");
  EXPECT_EQ(health_of(*child_).not_ready, "waits");
  std::optional<std::string> page;
  child_->ask_metrics([&](std::string text) { page = std::move(text); });
  ASSERT_TRUE(run_until(loop_, [&] { return page.has_value(); }));
  EXPECT_EQ(page, "own 1\nx 1\n");
  std::optional<HealthPage> errors;
  child_->ask_errors([&](HealthPage got) { errors = std::move(got); });
  ASSERT_TRUE(run_until(loop_, [&] { return errors.has_value(); }));
  EXPECT_EQ(errors->status, 200);
  EXPECT_NE(errors->body.find("early"), std::string::npos);
}

class EmptyWork final : public workers::RoleWork {};

workers::Role empty_role() {
  return {"empty", [](workers::Unit&) { return std::make_unique<EmptyWork>(); }};
}

TEST_F(WorkerPartsTest, RT4_ARoleOnItsLoopTellsItsHealthAndRunsOut) {
  WorkerRoleConfig config;
  config.name = "empty";
  config.servers = {"http://127.0.0.1:1/shards/root"};  // nobody is there
  config.lease_clusters = {"root"};
  WorkerAccess access;
  access.proxy = {"http", "127.0.0.1", 1, ""};
  WorkerHost host(loop_, config, folder_, empty_role(), access);
  ASSERT_TRUE(host.start());
  RoleHealth health;
  ASSERT_TRUE(run_until(loop_, [&] {
    host.ask_health([&](RoleHealth now) { health = std::move(now); });
    return health.not_ready.find("root: ") != std::string::npos;
  })) << health.not_ready;
  EXPECT_TRUE(health.alive);
  std::optional<std::string> page;
  host.set_pressure(true);
  host.ask_metrics([&](std::string text) { page = std::move(text); });
  ASSERT_TRUE(run_until(loop_, [&] { return page.has_value(); }));
  EXPECT_NE(page->find("\nworker_units{role=\"empty\"} 1\n"), std::string::npos) << *page;
  EXPECT_NE(page->find("\njournal_rebuilds_total{role=\"empty\"} 0\n"), std::string::npos);
  EXPECT_NE(page->find("\nworker_memory_pressure{role=\"empty\"} 1\n"), std::string::npos);
  bool stopped = false;
  host.stop([&] { stopped = true; });
  EXPECT_EQ(health_of(host).not_ready, "is stopping");
  EXPECT_TRUE(run_until(loop_, [&] { return stopped; }));
}

TEST_F(WorkerPartsTest, RT_T073_AFolderIsOneProcess) {
  {
    const auto first = lock_worker_folder(folder_ + "/new/data");
    ASSERT_TRUE(first) << first.error().message();
    const auto second = lock_worker_folder(folder_ + "/new/data");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::kConfig);
    EXPECT_EQ(second.error().message(),
              "data_dir: " + folder_ + "/new/data is in use by another worker");
    EXPECT_TRUE(lock_worker_folder(folder_ + "/new/other"));
  }
  EXPECT_TRUE(lock_worker_folder(folder_ + "/new/data"));
}

TEST(WorkerFiles, MemoryOfTheProcessIsKnown) { EXPECT_GT(resident_bytes(), std::size_t{1} << 20); }

}  // namespace
}  // namespace kintsugi::server
