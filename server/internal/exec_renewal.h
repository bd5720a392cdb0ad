#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "net/loop.h"
#include "proxy/config/config.h"

namespace kintsugi::server {

/// Every kubeconfig that a configuration names; those that are not there are among them.
[[nodiscard]] std::vector<std::string> kubeconfigs_of(const proxy::ProxyConfig& config);
/// Whether a user in one of them has a credential plug-in.
[[nodiscard]] bool name_exec_plugins(const std::vector<std::string>& kubeconfigs);

/// Has credential plug-ins asked, which may take a minute, on a thread of its own: again before
/// what they said ends, or when a server does not accept it any more, and before their kubeconfigs
/// are read. Threads: its loop's.
class ExecRenewal {
 public:
  /// @param is_refused  a server answers 401. @param changed  a plug-in says something else now
  ExecRenewal(net::Loop& loop, std::function<bool()> is_refused, std::function<void()> changed);
  ~ExecRenewal();
  ExecRenewal(const ExecRenewal&) = delete;
  ExecRenewal& operator=(const ExecRenewal&) = delete;

  /// `done` in a later turn: reading these asks no plug-in that has not answered.
  void prepare(std::vector<std::string> kubeconfigs, std::function<void()> done);

 private:
  void look();
  /// `work` on the thread, then `after` here; at once if it is free, else when it is.
  void run(std::function<void()> work, std::function<void()> after);

  net::Loop& loop_;
  std::function<bool()> is_refused_;
  std::function<void()> changed_;
  net::Timer timer_;
  std::thread thread_;
  bool works_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace kintsugi::server
