#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::workers {

/// Members that a dispatcher has in the groups of its egresses, by the egress' uid.
using DispatcherMembers = std::map<std::string, std::int64_t, std::less<>>;

/// Of what `/status` of a dispatcher answers (DP-1). nullopt: it is none, or another pod's.
[[nodiscard]] std::optional<DispatcherMembers> members_of_status(std::string_view body,
                                                                 std::string_view pod);

/// Asks dispatchers for their members, for as long as somebody waits for that word: each at once,
/// and again 500 ms after its answer. What does not answer is asked again as well, each time for at
/// most 5 s. Threads: the loop's. Lifetime: the loop outlives it; its end ends all questions.
class MemberAsker {
 public:
  using Answered = std::function<void(const std::string& pod, const DispatcherMembers& members)>;
  /// @param answered  in a turn of its own; may not destroy this
  MemberAsker(net::Loop& loop, Answered answered);
  MemberAsker(const MemberAsker&) = delete;
  MemberAsker& operator=(const MemberAsker&) = delete;

  /// These are asked from now on, and no others. @param pods  "http://<address>" by name
  void ask(const std::map<std::string, std::string>& pods);
  [[nodiscard]] std::size_t asked() const noexcept { return pods_.size(); }

 private:
  struct Pod {
    explicit Pod(net::Loop& loop) : again(loop) {}
    std::string url;
    std::shared_ptr<net::Upstream> origin;  // ended in a later turn
    std::unique_ptr<net::Call> call;
    net::Timer again;
  };
  void question(const std::string& name, Pod& pod);

  net::Loop& loop_;
  Answered answered_;
  std::map<std::string, std::unique_ptr<Pod>> pods_;
};

}  // namespace kintsugi::workers
