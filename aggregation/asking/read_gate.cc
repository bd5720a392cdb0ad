#include "aggregation/asking/read_gate.h"

#include <list>
#include <map>
#include <mutex>
#include <utility>

namespace kintsugi::aggregation {

struct ReadGate::Visitor {
  Visitor(net::Loop& l, Wish w) : loop(l), wish(std::move(w)), patience(l) {}
  net::Loop& loop;
  const Wish wish;

  // Under the book's mutex.
  enum class State : std::uint8_t { kWaiting, kInside, kGone } state = State::kWaiting;
  std::list<std::shared_ptr<Visitor>>::iterator place;  // while it waits

  // The loop's own.
  std::function<void(Answer)> then;
  net::Timer patience;

  void tell(Answer answer) {
    patience.cancel();
    if (then) {
      std::exchange(then, nullptr)(answer);
    }
  }
};

struct ReadGate::Book {
  struct Scope {
    std::size_t used = 0;
    std::map<std::string, std::size_t> by_identity;
    std::list<std::shared_ptr<Visitor>> waiting;
  };

  explicit Book(Limits l) : limits(l) {}

  [[nodiscard]] bool is_full(const Scope& scope, const Wish& wish) const noexcept {
    return scope.used != 0 &&
           scope.used + wish.amount > (tight ? limits.at_once / 8 : limits.at_once);
  }

  [[nodiscard]] bool has_own_room(const Scope& scope, const Wish& wish) const {
    const auto mine = scope.by_identity.find(wish.identity);
    return limits.of_identity == 0 || mine == scope.by_identity.end() ||
           mine->second + wish.amount <= limits.of_identity;
  }

  /// Who goes next: of those whose identity has room of its own, whose has least inside.
  [[nodiscard]] auto next_of(Scope& scope) const {
    auto next = scope.waiting.end();
    std::size_t least = 0;
    for (auto each = scope.waiting.begin(); each != scope.waiting.end(); ++each) {
      const Wish& wish = (*each)->wish;
      const auto mine = scope.by_identity.find(wish.identity);
      const std::size_t has = mine == scope.by_identity.end() ? 0 : mine->second;
      if ((next == scope.waiting.end() || has < least) && has_own_room(scope, wish)) {
        next = each;
        least = has;
        if (has == 0) {
          break;
        }
      }
    }
    return next;
  }

  /// Loops are told under the mutex: a visitor that is in the line has a ticket, and that a loop.
  void let_in(Scope& scope, const Visitor* newcomer) {
    for (;;) {
      const auto next = next_of(scope);
      if (next == scope.waiting.end() || is_full(scope, (*next)->wish)) {
        return;
      }
      const std::shared_ptr<Visitor> visitor = *next;
      scope.waiting.erase(next);
      scope.used += visitor->wish.amount;
      scope.by_identity[visitor->wish.identity] += visitor->wish.amount;
      visitor->state = Visitor::State::kInside;
      if (visitor.get() != newcomer) {
        visitor->loop.post([visitor] { visitor->tell(Answer::kGo); });
      }
    }
  }

  [[nodiscard]] Visitor::State come(const std::shared_ptr<Visitor>& visitor) {
    const std::lock_guard<std::mutex> lock(mutex);
    Scope& scope = scopes[visitor->wish.scope];
    visitor->place = scope.waiting.insert(scope.waiting.end(), visitor);
    let_in(scope, visitor.get());
    if (scope.waiting.size() > limits.waiting) {
      scope.waiting.pop_back();
      visitor->state = Visitor::State::kGone;
    }
    return visitor->state;
  }

  /// @returns false: it is inside by now
  [[nodiscard]] bool give_up(Visitor& visitor) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (visitor.state != Visitor::State::kWaiting) {
      return false;
    }
    go(visitor);
    return true;
  }

  void leave(Visitor& visitor) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (visitor.state != Visitor::State::kGone) {
      go(visitor);
    }
  }

  void go(Visitor& visitor) {
    const auto found = scopes.find(visitor.wish.scope);
    Scope& scope = found->second;
    if (std::exchange(visitor.state, Visitor::State::kGone) == Visitor::State::kWaiting) {
      scope.waiting.erase(visitor.place);
    } else {
      scope.used -= visitor.wish.amount;
      const auto mine = scope.by_identity.find(visitor.wish.identity);
      mine->second -= visitor.wish.amount;
      if (mine->second == 0) {
        scope.by_identity.erase(mine);
      }
    }
    let_in(scope, nullptr);
    if (scope.used == 0 && scope.waiting.empty()) {
      scopes.erase(found);
    }
  }

  void tighten(bool is_short) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (std::exchange(tight, is_short) && !is_short) {
      for (auto& [name, scope] : scopes) {
        let_in(scope, nullptr);
      }
    }
  }

  const Limits limits;
  bool tight = false;
  std::mutex mutex;
  std::map<std::string, Scope> scopes;
};

ReadGate::ReadGate(Limits limits) : book_(std::make_shared<Book>(limits)) {}
ReadGate::~ReadGate() = default;

void ReadGate::tighten(bool is_short) { book_->tighten(is_short); }

std::unique_ptr<ReadGate::Ticket> ReadGate::enter(net::Loop& loop, Wish wish, Duration patience,
                                                  std::function<void(Answer)> then) {
  const auto visitor = std::make_shared<Visitor>(loop, std::move(wish));
  visitor->then = std::move(then);
  const Visitor::State state = book_->come(visitor);
  if (state == Visitor::State::kGone) {
    return nullptr;
  }
  const bool may_go = state == Visitor::State::kInside;
  if (may_go) {
    visitor->then = nullptr;
  } else {
    visitor->patience.start(patience, [book = book_, visitor] {
      if (book->give_up(*visitor)) {
        visitor->tell(Answer::kTurnedAway);
      }
    });
  }
  return std::unique_ptr<Ticket>(new Ticket(book_, visitor, may_go));
}

ReadGate::Ticket::~Ticket() {
  visitor_->patience.cancel();
  visitor_->then = nullptr;
  book_->leave(*visitor_);
}

}  // namespace kintsugi::aggregation
