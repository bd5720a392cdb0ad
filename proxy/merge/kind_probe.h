#pragma once

#include <functional>
#include <string>

#include "net/loop.h"
#include "proxy/merge/json_split.h"
#include "proxy/merge/member_call.h"
#include "proxy/merge/merge_loop.h"
#include "proxy/merge/watch_text.h"

namespace kintsugi::proxy {

/// Asks one shard for a list of at most one object, to learn what a stream's objects are
/// (specs/aggregation.md AGG-512). Tries again until it knows. Threads: its loop.
class KindProbe final : private MemberCall::Listener {
 public:
  /// @param head  as the watch is asked for; like `route` it has to outlive this.
  KindProbe(MergeLoop& shared, const http::RequestHead& head, const MergeRoute& route,
            std::string passed_on, std::function<void(StreamKind kind, std::string columns)> known);
  void start();

 private:
  void on_head(const http::ResponseHead& head) noexcept override { good_ = head.status == 200; }
  void on_data(std::string_view bytes) noexcept override;
  void on_end(Errc cause) noexcept override;

  MergeLoop& shared_;
  const http::RequestHead& head_;
  const MergeRoute& route_;
  std::string passed_on_;
  std::function<void(StreamKind, std::string)> known_;
  MemberCall call_;
  ListSplitter splitter_;
  net::Timer retry_;
  std::size_t next_ = 0;
  bool good_ = false;
};

}  // namespace kintsugi::proxy
