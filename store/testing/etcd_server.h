#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/testing/test_store.h"

/// A real etcd on loopback, for tests. Included by tests only.
namespace kintsugi::store {

/// The program: that of KINTSUGI_ETCD, else the one of PATH.
inline std::string etcd_program() {
  const char* const said = std::getenv("KINTSUGI_ETCD");
  if (said != nullptr) {
    return said;
  }
  const std::string path = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string program = path.substr(begin, end - begin) + "/etcd";
    if (::access(program.c_str(), X_OK) == 0) {
      return program;
    }
    begin = end + 1;
  }
  return "";
}

inline std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  (void)::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

struct EtcdOptions {
  std::vector<std::string> flags = {};
  std::string scheme = "http";  ///< of its clients
  std::string name = "one";
  std::uint16_t peer_port = 0;  ///< 0: a free one
  std::string cluster = "";     ///< "": it is alone
  bool waits = true;            ///< until it listens
};

/// Ends with the thread that has started it.
class EtcdServer {
 public:
  explicit EtcdServer(EtcdOptions options = {}) : options_(std::move(options)) {
    client_port_ = free_port();
    options_.peer_port = options_.peer_port != 0 ? options_.peer_port : free_port();
    start();
  }
  ~EtcdServer() { kill(); }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  [[nodiscard]] std::string url() const {
    return options_.scheme + "://127.0.0.1:" + std::to_string(client_port_);
  }
  /// Its folder.
  [[nodiscard]] std::string data() const { return directory_.data(); }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  /// On the data that is there.
  void start() {
    const std::string client = url();
    const std::string peer = "http://127.0.0.1:" + std::to_string(options_.peer_port);
    const std::string cluster =
        options_.cluster.empty() ? options_.name + "=" + peer : options_.cluster;
    std::vector<std::string> arguments = {"etcd",
                                          "--data-dir=" + directory_.data(),
                                          "--name=" + options_.name,
                                          "--listen-client-urls=" + client,
                                          "--advertise-client-urls=" + client,
                                          "--listen-peer-urls=" + peer,
                                          "--initial-advertise-peer-urls=" + peer,
                                          "--initial-cluster=" + cluster};
    arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());
    const std::string program = etcd_program();
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int nothing = ::open("/dev/null", O_RDWR);
      ::dup2(nothing, 1);
      ::dup2(nothing, 2);
      ::execv(program.c_str(), argv.data());
      ::_exit(127);
    }
    if (options_.waits) {
      wait_until_it_listens();
    }
  }
  void wait_until_it_listens() const {
    for (int i = 0; i < 1'000; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(client_port_);
      const bool there = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      ::close(fd);
      if (there) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

 private:
  TempDir directory_;
  EtcdOptions options_;
  std::uint16_t client_port_ = 0;
  pid_t pid_ = -1;
};

/// Three members that have elected a leader once a client is answered.
class EtcdCluster {
 public:
  EtcdCluster() {
    std::uint16_t ports[3] = {free_port(), free_port(), free_port()};
    std::string cluster;
    for (int i = 0; i < 3; ++i) {
      cluster += (i == 0 ? "m" : ",m") + std::to_string(i) +
                 "=http://127.0.0.1:" + std::to_string(ports[i]);
    }
    // One listens to clients when it has found another: all have to be on their way.
    for (int i = 0; i < 3; ++i) {
      EtcdOptions options;
      options.name = "m" + std::to_string(i);
      options.peer_port = ports[i];
      options.cluster = cluster;
      options.waits = false;
      members_.push_back(std::make_unique<EtcdServer>(std::move(options)));
    }
    for (const auto& member : members_) {
      member->wait_until_it_listens();
    }
  }
  [[nodiscard]] EtcdServer& member(std::size_t index) { return *members_[index]; }
  [[nodiscard]] std::vector<std::string> urls() const {
    std::vector<std::string> out;
    for (const auto& member : members_) {
      out.push_back(member->url());
    }
    return out;
  }

 private:
  std::vector<std::unique_ptr<EtcdServer>> members_;
};

}  // namespace kintsugi::store
