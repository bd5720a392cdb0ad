#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/alive.h"
#include "net/loop.h"
#include "workers/eventing/kafka/delete_group.h"
#include "workers/eventing/kafka/kafka_facts.h"

namespace kintsugi::workers {

/// What Kafka has said about each group, asked on threads of their own: at most 8 at a time, 3 of
/// one cluster, so that one that is not there does not keep the others. Answers that are good are
/// asked for again after `every`, others after 1, 2, 4 … 60 s.
/// Threads: the loop's. Lifetime: the loop outlives it; answers end with it.
class KafkaBook {
 public:
  /// @param answered  by the group's key: facts() has another answer
  KafkaBook(net::Loop& loop, Duration every, std::function<void(const std::string&)> answered);

  /// The last answer to that question; nullptr: there is none yet. Asks when there is none, or
  /// when it is old.
  [[nodiscard]] const KafkaFacts* facts(const std::string& key, const KafkaQuestion& question);
  /// When facts() asks again.
  [[nodiscard]] std::optional<Duration> due(std::string_view key) const;
  void forget(std::string_view key);

  /// How far the deletion of a group in Kafka has come.
  struct Farewell {
    std::optional<bool> can_delete{};  ///< nullopt: it is not known yet
    bool deleted = false;
    int tries = 0;  ///< that failed
  };
  /// Begins the next try where one is due: kMostDeleteTries of them, 1, 2, 4 and 8 s after the one
  /// before. `answered` tells when one has ended.
  [[nodiscard]] const Farewell& farewell(const std::string& key, const KafkaQuestion& of);
  /// When farewell() does something; nullopt: a try is under way, or it is over.
  [[nodiscard]] std::optional<Duration> farewell_due(std::string_view key) const;

  /// Answers so far, good and bad.
  struct Counts {
    std::uint64_t good = 0, bad = 0;
    std::array<std::uint64_t, 3> deletions{};  ///< by KafkaGroupDeletion::Result
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  struct Page {
    KafkaQuestion question;
    std::optional<KafkaFacts> facts;
    TimePoint ask_at{};
    int failures = 0;
    std::shared_ptr<void> asking;
  };
  struct Leaving {
    Farewell how;
    TimePoint ask_at{};
    std::shared_ptr<void> asking;
  };
  void ask(const std::string& key, Page& page);
  void left(const std::string& key, const KafkaGroupDeletion& answer);
  void take(const std::string& key, KafkaFacts facts);

  net::Loop& loop_;
  const Duration every_;
  std::function<void(const std::string&)> answered_;
  std::map<std::string, Page, std::less<>> pages_;
  std::map<std::string, Leaving, std::less<>> leaving_;
  Counts counts_;
  Alive alive_;
};

}  // namespace kintsugi::workers
