#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// How much the merged reads of a process ask of shards at a time: so much of one scope, so much of
/// that for one identity. Who finds no room waits; those whose identity has least inside go first,
/// of these who came first; those whose identity has all that is its own are passed by (SE-005).
/// Threads: any.
class ReadGate {
  struct Book;
  struct Visitor;

 public:
  struct Limits {
    std::size_t at_once = 0;      ///< of one scope; who wants more than that still goes, alone
    std::size_t of_identity = 0;  ///< of these; 0: any number
    std::size_t waiting = 0;      ///< [visitors] of one scope
  };
  /// For lists, which take all of their streams to shards at once: two of them never wait for each
  /// other (AGG-601). A quarter is one payer's, who may read them as slowly as he likes.
  [[nodiscard]] static constexpr Limits for_lists(std::size_t streams) noexcept {
    return {
        .at_once = streams, .of_identity = streams / 4 == 0 ? 1 : streams / 4, .waiting = 1'024};
  }
  /// For watches that take in present objects: shards serve these from a cost of their own for each
  /// (AGG-804).
  [[nodiscard]] static constexpr Limits for_initial_events() noexcept {
    return {.at_once = 16, .of_identity = 8, .waiting = 256};
  }
  static constexpr Duration kInitialPatience = seconds(10);

  explicit ReadGate(Limits limits);
  ~ReadGate();
  ReadGate(const ReadGate&) = delete;
  ReadGate& operator=(const ReadGate&) = delete;

  /// Memory is short, or not any more: meanwhile an eighth is asked at a time, and the others wait
  /// (SE-091).
  void tighten(bool is_short);

  struct Wish {
    std::string scope = {}, identity = {};
    std::size_t amount = 1;
  };
  enum class Answer : std::uint8_t { kGo, kTurnedAway };

  /// A place inside, or in the line; given back by its destruction. May outlive the gate, not its
  /// loop. Threads: the loop's.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    /// It went in when it came; otherwise `then` tells.
    [[nodiscard]] bool may_go() const noexcept { return may_go_; }

   private:
    friend class ReadGate;
    Ticket(std::shared_ptr<Book> book, std::shared_ptr<Visitor> visitor, bool may_go) noexcept
        : book_(std::move(book)), visitor_(std::move(visitor)), may_go_(may_go) {}
    std::shared_ptr<Book> book_;
    std::shared_ptr<Visitor> visitor_;
    bool may_go_;
  };

  /// @param then  called once in a later turn of the loop unless may_go(): there is room, or
  /// patience is over. It may destroy the ticket, and is not called after that.
  /// @returns nullptr: too many wait
  [[nodiscard]] std::unique_ptr<Ticket> enter(net::Loop& loop, Wish wish, Duration patience,
                                              std::function<void(Answer)> then);

 private:
  std::shared_ptr<Book> book_;
};

}  // namespace kintsugi::aggregation
