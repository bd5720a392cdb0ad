#include "server/internal/exec_plugin.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "server/files.h"

namespace kintsugi::server {
namespace {

constexpr const char* kVersion = "client.authentication.k8s.io/v1";
const std::string kSays =
    R"(printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}')";

ExecPlugin shell(const std::string& script) {
  return {"/bin/sh", {"-c", script}, {}, kVersion, ""};
}

std::string said(const ExecPlugin& plugin, ExecLimits limits = {}) {
  const auto says = run_exec_plugin(plugin, limits);
  return says ? std::string(says->token.view()) : std::string(says.error().message());
}

TEST(ExecPluginTest, GR_701_OutputAndTime_AreBounded) {
  const ExecLimits limits{30, std::size_t{64} << 10};
  EXPECT_EQ(said(shell(kSays), limits), "t");
  EXPECT_EQ(said(shell("head -c 60000 /dev/zero | tr '\\0' ' '; " + kSays), limits), "t");
  const std::string late =
      "exec: \"/bin/sh\": it did not end within 30 s, or printed more than 64 KiB";
  EXPECT_EQ(said(shell("head -c 70000 /dev/zero | tr '\\0' ' '; " + kSays), limits), late);
  EXPECT_EQ(said(shell("sleep 600"), {1, 1'024}),
            "exec: \"/bin/sh\": it did not end within 1 s, or printed more than 1 KiB");
  EXPECT_EQ(said(shell("exit 3")), "exec: \"/bin/sh\": it ended with status 3");
}

/// What a program has started ends with it.
TEST(ExecPluginTest, GR_701_WhenItsTimeIsOver_ItsChildrenEndToo) {
  char name[] = "/tmp/kintsugi-exec-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  (void)said(shell("sleep 600 & echo $! > " + folder + "/child; wait"), {1, 1'024});
  const pid_t child = std::atoi(read_file(folder + "/child").value_or("0").c_str());
  ASSERT_GT(child, 1);
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  const auto is_over = [&] {
    const auto text = read_file(stat);
    return !text || text->find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 1'000 && !is_over(); ++i) {
    ::usleep(10'000);
  }
  EXPECT_TRUE(is_over());
  std::filesystem::remove_all(folder);
}

/// In a process of its own: the helper is for good.
int with_helper() {
  if (!start_exec_helper()) {
    return 10;
  }
  char name[] = "/tmp/kintsugi-exec-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  std::atomic<bool> ended{false};
  std::string hung;
  std::thread hangs([&] {  // nobody waits for it
    hung = said(shell("touch " + folder + "/begun; exec sleep 600"));
    ended = true;
  });
  while (!file_exists(folder + "/begun")) {
    ::usleep(1'000);
  }
  std::vector<std::string> answers(8);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) {
    threads.emplace_back([&] { answer = said(shell(kSays)); });
  }
  for (std::thread& one : threads) {
    one.join();
  }
  for (const std::string& answer : answers) {
    if (answer != "t") {
      return 11;
    }
  }
  if (ended) {
    return 12;
  }
  stop_exec_helper();  // who waits is told, at once
  hangs.join();
  std::filesystem::remove_all(folder);
  return hung.find("the helper that runs it is gone") != std::string::npos ? 0 : 13;
}

TEST(ExecPluginTest, GR_701_OneThatHangs_DelaysNoOther) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(with_helper());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kintsugi::server
