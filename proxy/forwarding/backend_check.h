#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/request_header.h"
#include "base/alive.h"
#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"

namespace kintsugi::proxy {

/// A server that is told by headers who asks, and how it is reached.
struct BackendTarget {
  std::string what;  ///< for messages: "shard alpha", "/etc/mapping.yaml:3: entry /x/"
  net::UpstreamParams server;
  auth::RequestHeaderConfig names = {};
};

/// Whether client pairs assert identities (FP-162). A pair may be an
/// administrator's, or anybody's: a server that does not take it for a proxy's would let every
/// caller do what its owner may. So each server is asked by SelfSubjectReview who somebody is whose
/// name, made up at random, is in the headers, and the user name of its answer is compared; a
/// server without reviews for something that ordinary users may not get. Threads: one loop. Bound:
/// 32 targets that were not tried yet at a time.
class BackendCheck {
 public:
  struct Hooks {
    /// Once, in a later turn: all have told. @error kConfig names the target and the user that
    /// callers would be; nothing is asked after it.
    std::function<void(Expected<void>)> told;
    /// Once, before `told` or in its place: every target has told, does not answer now, or answers
    /// without a review, so that nobody becomes anybody there now. May be empty.
    std::function<void()> tried = {};
  };
  /// Targets that have not told are asked again, ever more seldom, each time on a connection that
  /// is closed after it. @param longest_pause between
  BackendCheck(net::Loop& loop, std::vector<BackendTarget> targets, Hooks hooks,
               Duration longest_pause = seconds(30));
  ~BackendCheck();

 private:
  struct Asked;
  void begin();
  [[nodiscard]] net::FetchRequest question(const Asked& asked, std::size_t place) const;
  /// Asks one target until it has told; where reviews are not served, in the next place.
  [[nodiscard]] net::Task<> judge(Asked& asked);
  void told(Asked& asked);
  void finish(Expected<void> result);

  net::Loop& loop_;
  const Duration longest_pause_;
  const std::string nobody_;
  Hooks hooks_;
  std::vector<BackendTarget> waiting_;
  std::list<std::unique_ptr<Asked>> asked_;
  Alive alive_;
};

/// What the answer of a SelfSubjectReview, or of another request, says of who asked: the user name
/// of its status, or the one to whom it was refused; "": nothing.
[[nodiscard]] std::string reviewed_user(int status, std::string_view body);

}  // namespace kintsugi::proxy
