#include "server/internal/remedies.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>

#include "server/internal/up_report.h"

namespace kintsugi::server {
namespace {

const Layout kLayout{"/srv/k"};

/// What processes say, as it was seen, and a part of what is to be done about it.
struct Case {
  const char* why;
  const char* does;
};

TEST(Remedies, OP_202_ARowForEachFault) {
  const Case cases[] = {
      {"kintsugi shard: the store is damaged: keys from \"\" on are lost",
       "`kintsugi store check --dir /srv/k/shards/shard-1/data` says what is left"},
      {"kintsugi shard: /srv/k/shards/shard-1/data: has format 9, this program knows format 1",
       "start the release that wrote it"},
      {"kintsugi shard: /srv/k/shards/shard-1/data: No space left on device",
       "make room where /srv/k is (`df -h /srv/k`)"},
      {"kintsugi shard: /srv/k/shards/shard-1/data: Read-only file system", "for writing"},
      {"kintsugi shard: /srv/k/shards/shard-1/data: Permission denied", "`ls -ln /srv/k`"},
      {"kintsugi shard: /srv/k/x: Too many open files", "LimitNOFILE="},
      {"restart failed: fork: Resource temporarily unavailable", "`ulimit -u`"},
      {"kintsugi shard: /srv/k/shards/shard-1/data: in use by process 4711",
       "use another --dir: a store has one writer"},
      {"kintsugi proxy: 203.0.113.9:6443: cannot assign requested address", "another --bind"},
      {"TLS: certificate is not yet valid", "`date -u`"},
      {"TLS: certificate has expired", "`kintsugi pki status --dir /srv/k`"},
      {"TLS: certificate verify failed", "another CA than /srv/k has"},
      {"root: workspaces: 403 User \"system:anonymous\" cannot list",
       "does not take the credential"},
      {"shard-1: workspaces: 401 Unauthorized", "does not take the credential"},
      {"etcd: no member answers", "`etcdctl endpoint health`"},
      {"shard-1: workspaces are not listed yet: Refused", "nobody listens there"},
      {"etc.example: does not resolve", "`getent hosts`"},
      {"shard-1: logicalclusters are not listed yet: Timeout", "can be reached from here"},
      {"shard-1: workspaces are not listed yet", "`kintsugi get shards`"},
      {"its process ended (signal 9) 2 s ago, 3 restarts so far, and is started again", "`dmesg`"},
      {"does not answer", "--hang-timeout"},
      {"it does not listen yet", "--hang-timeout"},
  };
  std::set<std::string> all;
  for (const Case& one : cases) {
    const std::string does = remedy_of("shard-1", one.why, kLayout);
    EXPECT_NE(does.find(one.does), std::string::npos) << one.why << "\n" << does;
    EXPECT_EQ(does.find('<'), std::string::npos) << "a mark is left: " << does;
    EXPECT_FALSE(does.ends_with('.')) << does;
    EXPECT_EQ(with_remedy("shard-1", one.why, kLayout), std::string(one.why) + "; " + does);
    all.insert(does);
  }
  EXPECT_EQ(all.size(), 20U) << "of 22 cases two pairs have one remedy";
}

TEST(Remedies, OP_202_WhatNobodyKnowsBetterIsLeftToTheLog) {
  EXPECT_EQ(remedy_of("root", "the moon is full", kLayout), "");
  EXPECT_EQ(with_remedy("root", "the moon is full", kLayout), "the moon is full");
  EXPECT_EQ(waiting_line("root", "the moon is full", kLayout),
            "waiting for root: the moon is full; /srv/k/logs/root.log tells more");
  EXPECT_EQ(waiting_line("root", "does not answer", kLayout),
            "waiting for root: does not answer; it still starts, or hangs: --hang-timeout ends one "
            "that has answered before; /srv/k/logs/root.log tells more");
}

TEST(Remedies, OP_202_ADamagedStoreIsThatOfTheProcess) {
  const std::string why = "the store is damaged: page 7";
  EXPECT_NE(remedy_of("proxy", why, kLayout).find("--dir /srv/k/proxy/data`"), std::string::npos);
  EXPECT_NE(remedy_of("proxy-2", why, kLayout).find("--dir /srv/k/proxy-2/data`"),
            std::string::npos);
  EXPECT_NE(remedy_of("root", why, kLayout).find("--dir /srv/k/shards/root/data`"),
            std::string::npos);
}

TEST(Remedies, OP_202_WhoHasAPortIsNamed) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string why = "kintsugi proxy: 127.0.0.1:" + std::to_string(ntohs(address.sin_port)) +
                          ": address already in use";
  EXPECT_EQ(remedy_of("proxy", why, kLayout), "pid " + std::to_string(::getpid()) +
                                                  " has it; end what listens there, or use "
                                                  "another --port");
  ::close(fd);
  EXPECT_EQ(remedy_of("proxy", why, kLayout), "end what listens there, or use another --port");
  EXPECT_EQ(remedy_of("proxy", "x: address already in use", kLayout),
            "end what listens there, or use another --port");
}

TEST(Remedies, OP_202_AShardThatIsLeftOut) {
  EXPECT_EQ(left_out_line("shard-1", 1, 2, kLayout),
            "shard-1 has data here and does not run: this start has --shards 1, the folder 2; use "
            "--shards 2, or, if nobody needs what it has, `kubectl "
            "--kubeconfig=/srv/k/shards/root/admin.kubeconfig delete shard shard-1`");
}

}  // namespace
}  // namespace kintsugi::server
