#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::proxy {

/// How many watches may take in present objects at once: shards serve these from a cost of their
/// own for each (specs/aggregation.md AGG-804). Threads: its loop.
class InitialGate {
 public:
  static constexpr std::size_t kRunning = 16;           ///< of one scope
  static constexpr std::size_t kRunningOfIdentity = 8;  ///< of these
  static constexpr std::size_t kWaiting = 256;          ///< of one scope
  static constexpr Duration kPatience = seconds(10);

  enum class Answer : std::uint8_t { kGo, kTurnedAway };
  /// A place in a scope, or in the queue for one; given back by its destruction. Who waits gets it
  /// when the loop has heard everybody: many may leave together, those who wait among them.
  class Ticket;
  /// Calls `then` at once, or when a place is free or hope is lost. `then` may destroy the ticket.
  [[nodiscard]] std::unique_ptr<Ticket> enter(net::Loop& loop, const std::string& scope,
                                              const std::string& identity,
                                              std::function<void(Answer)> then);

 private:
  struct Scope {
    std::size_t running = 0;
    std::map<std::string, std::size_t> by_identity;
    std::list<Ticket*> waiting;
  };
  [[nodiscard]] static bool has_place(const Scope& scope, const std::string& identity);
  bool admit(const std::string& scope);
  void admit_soon(net::Loop& loop);

  std::map<std::string, Scope> scopes_;
  bool admits_soon_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

class InitialGate::Ticket {
 public:
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  friend class InitialGate;
  Ticket(InitialGate& gate, net::Loop& loop, std::string scope, std::string identity)
      : gate_(gate),
        loop_(loop),
        scope_(std::move(scope)),
        identity_(std::move(identity)),
        patience_(loop) {}

  InitialGate& gate_;
  net::Loop& loop_;
  std::string scope_, identity_;
  std::function<void(Answer)> then_;
  net::Timer patience_;
  bool running_ = false;
};

}  // namespace kintsugi::proxy
