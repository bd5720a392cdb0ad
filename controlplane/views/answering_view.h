#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apiserver/server.h"
#include "controlplane/views/view_resolver.h"

namespace kintsugi::controlplane {

/// A virtual workspace of one kind that is answered and never stored: what peers with a certificate
/// of one group ask a shard, each of them by POST below
/// /services/<name>/<cluster>/clusters/<cluster>. Nothing can be read there. Threads: one loop.
class AnsweringView {
 public:
  using Answer = decltype(apiserver::Hooks::answer);
  /// @param kind  its hook `answer` is replaced. @param group  who may. @param answer  what it
  /// refers to outlives this, and all calls into the view.
  AnsweringView(const apiserver::ResourceDef& kind, std::string_view group, Answer answer);
  ~AnsweringView();
  AnsweringView(const AnsweringView&) = delete;
  AnsweringView& operator=(const AnsweringView&) = delete;
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);

 private:
  class One;
  std::shared_ptr<One> view_;
};

}  // namespace kintsugi::controlplane
