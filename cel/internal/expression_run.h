#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cel/internal/ast.h"
#include "cel/internal/evaluator.h"
#include "cel/internal/fold_builder.h"
#include "cel/internal/value.h"

namespace kintsugi::cel {

/// One evaluation of an expression: goes down its tree, counts what it costs and how much it works,
/// and stops at the limit of either. What is returned behind the limit has no meaning.
class ExpressionRun {
 public:
  ExpressionRun(std::vector<Value> slots, std::uint64_t limit, std::uint64_t budget);
  [[nodiscard]] Evaluation run(const Expr& root);

 private:
  bool spend(std::uint64_t amount);
  bool work(std::uint64_t amount);

  // evaluator.cc: nodes and calls.
  Value eval(const Expr& expr);
  /// The value without a copy if it is stored somewhere; else it is put into `room`. Good until
  /// the next element of a loop around the expression.
  const Value& look(const Expr& expr, Value& room);
  Value call(const Expr& expr);
  Value choice(const Expr& expr);
  /// `x in ['a', 'b']` with literals is free.
  bool constant_member(const Expr& expr, Value& out);
  Value equality(const Expr& expr, bool negated);
  Value compared(const Value& left, const Value& right, bool negated);
  Value logical(const Expr& expr, bool decisive);
  Value function(const Expr& expr);
  template <std::size_t kMost>
  Value function(const Expr& expr);
  Value list(const Expr& expr);
  Value map(const Expr& expr);
  Value construct(const Expr& expr);

  // evaluator_chains.cc: names, and what is selected of their values.
  const Value& identifier(const Expr& expr);
  /// A branch of a choice: the name that a chain begins with is free there.
  Value branch(const Expr& expr);
  /// The operand of a selection. What is no chain starts one.
  const Value& look_target(const Expr& target, Value& room);
  Value select(const Expr& expr);
  /// target[key], on optional values and with `optional` as an optional value. A literal key costs
  /// one step of the chain, unless it is absent from an optional value; another only itself.
  Value index(const Value& target, const Value& key, bool optional, bool literal);
  Value presence(const Expr& expr);
  /// target[by], target[?by], target.?by.
  Value element(const Expr& expr, bool optional);
  /// a.or(b), a.orValue(b)
  Value first_of(const Expr& expr, bool unbox);

  // evaluator_folds.cc: macros over lists and maps.
  Value fold(const Expr& expr);
  /// A variable for one expression; its value is made when it is first read.
  Value binding(const Expr& expr);
  /// map, filter, transformList, transformMap without copying what was collected so far.
  Value build(const Expr& expr, const Value& range, const Builder& builder);
  /// Sets the loop variables for one element after the other; stops when `body` says so.
  template <class Body>
  Value loop(const Expr& expr, const Value& range, Body body);
  Value& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }

  const Value nothing_{};
  std::vector<Value> slots_;
  const std::uint64_t limit_, allowed_;
  std::uint64_t steps_;  ///< that are left of those allowed
  std::uint64_t cost_ = 0;
  bool exceeded_ = false;
  const Expr* free_ = nullptr;      ///< a name that does not count where it stands
  std::vector<const Expr*> bound_;  ///< by slot: values of bindings that nobody has read yet
};

inline bool ExpressionRun::spend(std::uint64_t amount) {
  cost_ = amount > UINT64_MAX - cost_ ? UINT64_MAX : cost_ + amount;
  exceeded_ = exceeded_ || cost_ > limit_;
  return !exceeded_;
}

inline bool ExpressionRun::work(std::uint64_t amount) {
  exceeded_ = exceeded_ || steps_ < amount;
  steps_ -= exceeded_ ? 0 : amount;
  return !exceeded_;
}

}  // namespace kintsugi::cel
