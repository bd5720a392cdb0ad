#include "server/internal/hang_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/internal/process_socket.h"

namespace kintsugi::server {
namespace {

TEST(HangJudge, OP_205_ThreeSilencesInARowAfterAnAnswer) {
  HangJudge judge;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(judge.on_asked("a", 7, false)) << "it still starts";
  }
  EXPECT_FALSE(judge.on_asked("a", 7, true));
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  EXPECT_FALSE(judge.on_asked("a", 7, true));
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  EXPECT_FALSE(judge.on_asked("b", 8, true)) << "another one";
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  EXPECT_TRUE(judge.on_asked("a", 7, false));
  EXPECT_FALSE(judge.on_asked("a", 7, false)) << "once";
}

TEST(HangJudge, OP_205_WhoWasStartedAgainBeginsAnew) {
  HangJudge judge;
  EXPECT_FALSE(judge.on_asked("a", 7, true));
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  EXPECT_FALSE(judge.on_asked("a", 7, false));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(judge.on_asked("a", 9, false)) << "it has not answered yet";
  }
  EXPECT_FALSE(judge.on_asked("a", 9, true));
  EXPECT_FALSE(judge.on_asked("a", 9, false));
  EXPECT_FALSE(judge.on_asked("a", 9, false));
  EXPECT_TRUE(judge.on_asked("a", 9, false));
}

TEST(HangJudge, OP_205_AStartMayTakeLongButNotForEver) {
  HangJudge judge;
  for (int i = 1; i < HangJudge::kStarting; ++i) {
    EXPECT_FALSE(judge.on_asked("a", 7, false)) << i;
  }
  EXPECT_TRUE(judge.on_asked("a", 7, false));
}

/// A socket that takes connections and says nothing, as that of a process which hangs.
class Silent {
 public:
  explicit Silent(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_, 64), 0);
  }
  ~Silent() { ::close(fd_); }

 private:
  const int fd_;
};

TEST(HangWatch, OP_205_TellsOnceOfWhoHasAnsweredAndDoesNotAnyMore) {
  char made[] = "/tmp/kintsugi-hangs-XXXXXX";
  const std::string folder = ::mkdtemp(made);
  net::Loop loop("test");
  const ProcessSocket lives(loop, folder + "/lives.sock");
  auto one = std::make_unique<ProcessSocket>(loop, folder + "/one.sock");
  std::unique_ptr<Silent> hangs;
  std::vector<std::string> told;
  int rounds = 0;
  HangWatch::Params params;
  params.processes = [&] {
    ++rounds;
    if (rounds == 3) {  // asked twice by now: it has answered
      one.reset();
      std::filesystem::remove(folder + "/one.sock");
      hangs = std::make_unique<Silent>(folder + "/one.sock");
    }
    if (rounds == 8) {
      loop.stop();
    }
    return std::vector<Supervisor::State>{{"lives", folder + "/lives.sock", 7, {}, 0, "", {}},
                                          {"one", folder + "/one.sock", 8, {}, 0, "", {}},
                                          {"starts", folder + "/starts.sock", 9, {}, 0, "", {}},
                                          {"ended", folder + "/one.sock", 0, {}, 0, "", {}},
                                          {"etcd", "", 10, {}, 0, "", {}}};
  };
  params.hangs = [&](const std::string& name) { told.push_back(name); };
  params.timeout = milliseconds(900);
  const HangWatch watch(loop, std::move(params));
  loop.run();
  EXPECT_EQ(told, (std::vector<std::string>{"one"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kintsugi::server
