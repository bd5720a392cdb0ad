#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace kintsugi::shards {

/// What servers refuse of what we ask for ourselves, again and again: one line of the log when it
/// begins and one when it ends, and what is refused now, for those who wonder why nothing comes
/// (FP-157). Threads: one.
class Refusals {
 public:
  struct Refusal {
    std::string server;   ///< name of the shard, "root" or "peers"
    std::string path;     ///< without query
    std::string message;  ///< what the server says; at most kMostMessage bytes
    std::string user;     ///< who we are there; "": not known
    int code = 0;
    std::uint64_t times = 0;
    /// "root: /clusters/…: 403 Forbidden things (asked as me)"
    [[nodiscard]] std::string text() const;
  };
  static constexpr std::size_t kMostMessage = 256;
  /// @param who  as whom a server is asked. May be empty.
  explicit Refusals(std::function<std::string(const std::string& server)> who)
      : who_(std::move(who)) {}

  /// How a question was answered. Lists and watches of a reader are two things: either may be
  /// refused alone. @param reader  who asks, always the same thing in the end: its path may change.
  /// @param body  of a refusal: a Status or any text
  void heard(const std::string& reader, const std::string& server, std::string_view target,
             int code, std::string_view body);
  /// The server is not asked any more.
  void forget(const std::string& server);
  [[nodiscard]] std::vector<Refusal> now() const;

 private:
  std::function<std::string(const std::string&)> who_;
  std::map<std::string, Refusal> refusals_;  ///< by reader, those of watches apart
};

}  // namespace kintsugi::shards
