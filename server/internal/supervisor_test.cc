#include "server/internal/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "net/signals.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

/// Real shells as children.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest()
      : signals_(loop_, {SIGCHLD}, [this](int) { supervisor_.reap(); }),
        supervisor_(loop_, "/bin/sh", {[this](const std::string& name, int status) {
                      ended_.emplace_back(name, status);
                    }}) {
    char name[] = "/tmp/kintsugi-supervisor-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string log_of(const std::string& name) const {
    return folder_ + "/" + name + ".log";
  }
  [[nodiscard]] std::string pid_file_of(const std::string& name) const {
    return folder_ + "/" + name + ".pid";
  }
  [[nodiscard]] std::string text_of(const std::string& path) const {
    const auto text = read_file(path);
    return text ? *text : "";
  }
  /// Of a process that runs; -1, which is nobody's, where the file does not tell.
  [[nodiscard]] pid_t pid_of(const std::string& name) const {
    const std::string text = text_of(pid_file_of(name));
    const pid_t pid = parse_decimal<pid_t>(text.substr(0, text.find('\n'))).value_or(-1);
    EXPECT_GT(pid, 1) << text;
    return pid;
  }
  void start(const std::string& name, const std::string& script) {
    const auto started = supervisor_.start({name, {"-c", script}, log_of(name), pid_file_of(name)});
    ASSERT_TRUE(started) << started.error().to_string();
  }
  /// False after twenty seconds.
  bool run_until(const std::function<bool()>& done) {
    if (done()) {
      return true;  // a stop before the run would be of the next one
    }
    const TimePoint limit = Clock::now() + seconds(20);
    net::Timer look(loop_);
    std::function<void()> again = [&] {
      if (done() || Clock::now() > limit) {
        loop_.stop();
      } else {
        look.start(milliseconds(5), again);
      }
    };
    look.start(Duration(), again);
    loop_.run();
    return done();
  }
  bool stop_all(Duration patience) {
    bool stopped = false;
    supervisor_.stop_all(patience, [&] { stopped = true; });
    return run_until([&] { return stopped; });
  }

  net::Loop loop_{"test"};
  std::vector<std::pair<std::string, int>> ended_;
  std::string folder_;
  net::Signals signals_;
  Supervisor supervisor_;
};

TEST_F(SupervisorTest, WhenAProcessIsSignalled_ItAloneGetsItAndIsStartedAgainWhenItEnds) {
  for (const char* name : {"one", "two"}) {
    start(name, "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done");
  }
  ASSERT_TRUE(run_until(
      [this] { return !text_of(log_of("one")).empty() && !text_of(log_of("two")).empty(); }));
  const pid_t one = pid_of("one"), two = pid_of("two");
  supervisor_.signal("one", SIGTERM);
  supervisor_.signal("three", SIGTERM);
  ASSERT_TRUE(run_until([this] { return !ended_.empty() && supervisor_.running() == 2; }));
  EXPECT_EQ(ended_.size(), 1U);
  EXPECT_EQ(ended_.front().first, "one");
  EXPECT_NE(pid_of("one"), one);
  EXPECT_EQ(pid_of("two"), two);
}

TEST_F(SupervisorTest, WhenAProcessEnds_ItIsToldAndStartedAgain) {
  start("a", "echo up $$; exec sleep 100");
  const auto ups = [&] {
    const std::string log = text_of(log_of("a"));
    return std::count(log.begin(), log.end(), '\n');
  };
  ASSERT_TRUE(run_until([&] { return ups() == 1; }));
  const pid_t first = pid_of("a");
  ASSERT_GT(first, 1);
  EXPECT_EQ(text_of(log_of("a")), "up " + std::to_string(first) + "\n");

  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(run_until([&] { return ups() == 2; }));
  ASSERT_EQ(ended_.size(), 1U);
  EXPECT_EQ(ended_.front().first, "a");
  EXPECT_TRUE(WIFSIGNALED(ended_.front().second));
  EXPECT_NE(pid_of("a"), first);
  EXPECT_EQ(supervisor_.running(), 1U);
}

TEST_F(SupervisorTest, WhenOneEndsAgainAndAgain_ThePausesGrow) {
  start("a", "exit 3");
  const TimePoint begin = Clock::now();
  ASSERT_TRUE(run_until([&] { return ended_.size() == 4; }));
  // 100, 200 and 400 ms at least.
  EXPECT_GE(Clock::now() - begin, milliseconds(700));
  EXPECT_EQ(WEXITSTATUS(ended_.back().second), 3);
}

TEST_F(SupervisorTest, WhenAllAreStopped_TheLastStartedGoesFirstAndTheNextWaitsForIt) {
  const std::string order = folder_ + "/order";
  for (const std::string name : {"a", "b", "c"}) {
    start(name, "trap 'echo " + name + " begins >> " + order + "; sleep 0.05; echo " + name +
                    " ends >> " + order + "; exit 0' TERM; echo up; while :; do sleep 0.01; done");
  }
  ASSERT_TRUE(run_until([&] {
    return text_of(log_of("a")) == "up\n" && text_of(log_of("b")) == "up\n" &&
           text_of(log_of("c")) == "up\n";
  }));
  ASSERT_TRUE(stop_all(seconds(15)));
  EXPECT_EQ(text_of(order), "c begins\nc ends\nb begins\nb ends\na begins\na ends\n");
  EXPECT_EQ(supervisor_.running(), 0U);
  EXPECT_TRUE(ended_.empty()) << "nobody was surprised";
  for (const std::string name : {"a", "b", "c"}) {
    EXPECT_FALSE(file_exists(pid_file_of(name)));
  }
}

TEST_F(SupervisorTest, WhenOneDoesNotEnd_ItIsKilled) {
  start("a", "trap '' TERM; echo up; while :; do sleep 0.01; done");
  ASSERT_TRUE(run_until([&] { return text_of(log_of("a")) == "up\n"; }));
  const pid_t pid = pid_of("a");
  ASSERT_GT(pid, 1);
  ASSERT_TRUE(stop_all(milliseconds(50)));
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(SupervisorTest, OP_205_WhoHangsIsEndedAndStartedAgainAndThatIsCounted) {
  start("a",
        "trap '' ABRT; echo up; while :; do sleep 0.01; done");  // deaf, as one that is stopped
  start("b", "echo up; exec sleep 100");
  ASSERT_TRUE(
      run_until([&] { return text_of(log_of("a")) == "up\n" && text_of(log_of("b")) == "up\n"; }));
  for (const char* name : {"a", "b", "c"}) {
    supervisor_.end_hung(name, milliseconds(50));
    supervisor_.end_hung(name, milliseconds(50));
  }
  ASSERT_TRUE(run_until([&] { return ended_.size() == 2 && supervisor_.running() == 2; }));
  for (const Supervisor::State& state : supervisor_.states()) {
    EXPECT_EQ(state.last_end, state.name == "a" ? "hung, signal 9" : "hung, signal 6");
    EXPECT_EQ(state.restarts, 1U);
    EXPECT_EQ(state.restarts_by, (std::array<std::uint64_t, 3>{0, 0, 1}));
  }
  supervisor_.signal("b", SIGKILL);
  ASSERT_TRUE(run_until([&] { return ended_.size() == 3 && supervisor_.running() == 2; }));
  EXPECT_EQ(supervisor_.states()[1].last_end, "signal 9");
  EXPECT_EQ(supervisor_.states()[1].restarts_by, (std::array<std::uint64_t, 3>{0, 1, 1}));
}

TEST_F(SupervisorTest, WhenItCannotBeStartedAgain_ItIsTriedUntilItCan) {
  start("a", "exit 0");
  const std::string logs = log_of("a");
  std::filesystem::remove(logs);
  std::filesystem::create_directory(logs);  // nothing can be appended to it
  ASSERT_TRUE(run_until([&] { return ended_.size() == 1; }));
  ASSERT_TRUE(run_until([this] { return supervisor_.states()[0].since > milliseconds(500); }));
  EXPECT_EQ(ended_.size(), 1U);
  std::filesystem::remove(logs);
  ASSERT_TRUE(run_until([&] { return ended_.size() == 2; }));
}

TEST_F(SupervisorTest, WhenNothingRuns_StoppingIsDoneAtOnce) { EXPECT_TRUE(stop_all(seconds(15))); }

TEST_F(SupervisorTest, WhenTheLogCannotBeOpened_SaysWhichFile) {
  const auto started =
      supervisor_.start({"a", {"-c", ":"}, folder_ + "/none/a.log", pid_file_of("a")});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), Errc::kIo);
  EXPECT_TRUE(started.error().message().starts_with(folder_ + "/none/a.log: "));
}

/// Children have the signals of a program that was just started, whatever the parent does.
TEST_F(SupervisorTest, WhenTheParentHandlesSignals_ChildrenDoNot) {
  net::Signals more(loop_, {SIGUSR1}, [](int) {});
  start("a", "echo up; exec sleep 100");
  ASSERT_TRUE(run_until([&] { return text_of(log_of("a")) == "up\n"; }));
  const pid_t pid = pid_of("a");
  ASSERT_GT(pid, 1);
  ASSERT_EQ(::kill(pid, SIGUSR1), 0);
  ASSERT_TRUE(run_until([&] { return !ended_.empty(); }));
  EXPECT_TRUE(WIFSIGNALED(ended_.front().second));
  EXPECT_EQ(WTERMSIG(ended_.front().second), SIGUSR1);
}

}  // namespace
}  // namespace kintsugi::server
