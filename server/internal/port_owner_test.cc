#include "server/internal/port_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "net/inherited_sockets.h"

namespace kintsugi::server {
namespace {

TEST(PortOwner, OP_105_ASocketOfThisProcessIsFound) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::uint16_t port = net::bound_port(fd);
  EXPECT_FALSE(port_owner("127.0.0.1", port)) << "nobody listens yet";
  ASSERT_EQ(::listen(fd, 1), 0);
  const auto found = port_owner("127.0.0.1", port);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, ::getpid());
  EXPECT_EQ(found->user, ::getuid());
  EXPECT_FALSE(port_owner("127.0.0.2", port));
  EXPECT_FALSE(port_owner("::1", port));
  EXPECT_FALSE(port_owner("no address", port));
  ::close(fd);
  EXPECT_FALSE(port_owner("127.0.0.1", port));
}

class PortOwners : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kintsugi-port-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/proc/net");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void table(const std::string& file, const std::string& rows) const {
    std::ofstream(root_ + "/proc/net/" + file) << "  sl  local_address rem_address   st\n" << rows;
  }
  void process(const std::string& pid, const std::string& socket) const {
    std::filesystem::create_directories(root_ + "/proc/" + pid + "/fd");
    std::filesystem::create_symlink(socket, root_ + "/proc/" + pid + "/fd/7");
  }
  std::string root_;
};

TEST_F(PortOwners, OP_105_TheFirstOfThoseWhoHaveTheSocketIsItsOwner) {
  table(
      "tcp",
      "   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "4711 1 0 100 0 0 10 0\n"
      "   1: 0200007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 "
      "12 1 0\n"
      "   2: 0100007F:192B 0100007F:8000 01 00000000:00000000 00:00000000 00000000     5        0 "
      "13 1 0\n"
      "garbage\n   3: :\n");
  process("814", "socket:[4711]");
  process("1", "socket:[4711]");
  process("2", "socket:[13]");
  const auto found = port_owner("127.0.0.1", 6443, root_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, 1);
  EXPECT_EQ(found->user, 0U);
  const auto hidden = port_owner("127.0.0.2", 6443, root_);
  ASSERT_TRUE(hidden);
  EXPECT_EQ(hidden->process, 0) << "nobody's that may be seen";
  EXPECT_EQ(hidden->user, 999U);
  EXPECT_FALSE(port_owner("127.0.0.1", 6444, root_));
}

TEST_F(PortOwners, OP_105_ASocketOfAllAddressesCounts) {
  const std::string zeros(32, '0');
  table("tcp6", "   0: " + zeros + ":192B " + zeros +
                    ":0000 0A 00000000:00000000 00:00000000 00000000     0        0 5 1 0\n");
  EXPECT_TRUE(port_owner("127.0.0.1", 6443, root_));
  EXPECT_TRUE(port_owner("::1", 6443, root_));
}

}  // namespace
}  // namespace kintsugi::server
