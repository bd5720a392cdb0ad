#include <gmock/gmock.h>

#include <iterator>
#include <map>
#include <random>

#include "store/store.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

/// What the store must answer, kept the plainest way: the whole state after each revision.
struct Model {
  struct Row {
    std::string value;
    Revision created = 0, modified = 0;
  };
  using State = std::map<std::string, Row>;
  std::vector<State> states{State{}};
  std::vector<Event> events;
  Revision compacted = 0;

  [[nodiscard]] Revision current() const { return states.size() - 1; }

  [[nodiscard]] std::vector<std::string> rows(const RangeQuery& query) const {
    const Revision at = query.at == 0 ? current() : query.at;
    if (at > current()) {
      return {"FutureRevision"};
    }
    if (at < compacted) {
      return {"Compacted"};
    }
    std::vector<std::string> out;
    for (const auto& [key, row] : states[at]) {
      if (key.starts_with(query.prefix) && key >= query.start) {
        out.push_back(key + "=" + row.value + "@" + std::to_string(row.modified) + "/" +
                      std::to_string(row.created));
      }
    }
    return out;
  }

  /// Empty: conflict.
  std::optional<Revision> apply(const std::vector<Op>& ops) {
    State next = states.back();
    const Revision revision = current() + 1;
    bool changed = false;
    for (const Op& op : ops) {
      const auto found = next.find(op.key);
      const bool exists = found != next.end();
      if (op.expected && *op.expected != (exists ? found->second.modified : 0)) {
        return std::nullopt;
      }
    }
    for (const Op& op : ops) {
      const auto found = next.find(op.key);
      const bool exists = found != next.end();
      if (!exists && op.type == EventType::kDelete) {
        continue;
      }
      const Row before = exists ? found->second : Row{};
      const Revision created = exists ? before.created : revision;
      events.push_back({revision, op.type, op.key, SharedBytes(op.value), SharedBytes(before.value),
                        created, before.modified});
      changed = true;
      if (op.type == EventType::kPut) {
        next[op.key] = {op.value, created, revision};
      } else {
        next.erase(op.key);
      }
    }
    if (!changed) {
      return current();
    }
    states.push_back(std::move(next));
    return revision;
  }

  [[nodiscard]] std::vector<std::string> changes(const std::string& prefix, Revision after,
                                                 Revision to) const {
    std::vector<std::string> out;
    for (const Event& event : events) {
      if (event.revision > after && event.revision <= to && event.key.starts_with(prefix)) {
        out.push_back(describe(event));
      }
    }
    return out;
  }
};

class StoreProperty : public ::testing::TestWithParam<Backend> {
 protected:
  void run(std::uint32_t seed, int steps);
  void compare();
  [[nodiscard]] std::size_t below(std::size_t bound) { return random_() % bound; }
  [[nodiscard]] const std::string& any_key() { return keys_[below(keys_.size())]; }
  [[nodiscard]] std::vector<Op> any_transaction();
  void commit(std::vector<Op> ops);

  std::mt19937 random_;
  const std::vector<std::string> keys_{"a",
                                       std::string("a\0", 2),
                                       std::string("a\0\0\0\0\0\0\0\0\1", 10),
                                       "a/",
                                       "a/b",
                                       "a/b/c",
                                       "a/c",
                                       "ab",
                                       "b",
                                       "b/1",
                                       "b/10",
                                       "b/11",
                                       "b/2",
                                       "b/3",
                                       "\xff",
                                       "\xff\xff",
                                       "c/" + std::string(478, 'k'),
                                       "c/" + std::string(300, 'k')};
  TestStore store_{GetParam()};
  Model model_;
};

std::vector<Op> StoreProperty::any_transaction() {
  std::map<std::string, Op> ops;
  for (std::size_t i = 0, size = 1 + below(4); i < size; ++i) {
    Op op;
    op.key = any_key();
    op.type = below(3) == 0 ? EventType::kDelete : EventType::kPut;
    const std::size_t length = below(10) == 0 ? 5'000 : below(40);
    op.value = std::string(length, static_cast<char>('a' + below(26)));
    const auto found = model_.states.back().find(op.key);
    const Revision actual = found == model_.states.back().end() ? 0 : found->second.modified;
    switch (below(8)) {
      case 0:
        op.expected = actual + 1;
        break;
      case 1:
      case 2:
        op.expected = actual;
        break;
      default:
        break;
    }
    ops[op.key] = op;
  }
  std::vector<Op> list;
  for (auto& [key, op] : ops) {
    list.push_back(std::move(op));
  }
  std::shuffle(list.begin(), list.end(), random_);
  return list;
}

void StoreProperty::commit(std::vector<Op> ops) {
  const auto expected = model_.apply(ops);
  const auto result = store_->commit_wait(std::move(ops));
  ASSERT_TRUE(result) << result.error().to_string();
  ASSERT_EQ(result->conflict, !expected.has_value());
  ASSERT_EQ(result->revision, expected.value_or(0));
}

void StoreProperty::compare() {
  const std::string& key = any_key();
  const auto found = model_.states.back().find(key);
  const auto entry = store_->get(key);
  ASSERT_EQ(entry.has_value(), found != model_.states.back().end());
  if (entry) {
    ASSERT_EQ(entry->value.view(), found->second.value);
    ASSERT_EQ(entry->created, found->second.created);
    ASSERT_EQ(entry->modified, found->second.modified);
  }
  RangeQuery query;
  query.prefix = any_key().substr(0, below(3));
  query.start = below(2) == 0 ? "" : any_key();
  query.at = below(model_.current() + 2);
  const auto expected = model_.rows(query);
  ASSERT_EQ(rows(*store_, query), expected) << query.prefix << " at " << query.at;
  const auto count = store_->count(query);
  if (count) {
    ASSERT_EQ(*count, expected.size());
  } else {
    ASSERT_EQ(expected, std::vector<std::string>{std::string(errc_name(count.error().code()))});
  }
  const Revision after = below(model_.current() + 2);
  const std::size_t limit = 1 + below(20);
  const auto changes = store_->changes(query.prefix, after, limit);
  if (after > model_.current()) {
    ASSERT_EQ(changes.error().code(), Errc::kFutureRevision);
  } else if (after < model_.compacted) {
    ASSERT_EQ(changes.error().code(), Errc::kCompacted);
  } else {
    ASSERT_TRUE(changes) << changes.error().to_string();
    ASSERT_EQ(describe(changes->events), model_.changes(query.prefix, after, changes->complete_to));
    if (changes->events.size() < limit) {
      ASSERT_EQ(changes->complete_to, model_.current());
    }
  }
}

void StoreProperty::run(std::uint32_t seed, int steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_.seed(seed);
  for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
    const std::size_t choice = below(60);
    if (choice == 0) {
      const Revision bound = below(model_.current() + 1);
      model_.compacted = std::max(model_.compacted, bound);
      store_->compact(bound);
      commit({put("barrier", std::to_string(step))});
    } else if (choice == 1) {
      store_.reopen();
    } else if (choice < 35) {
      commit(any_transaction());
    } else {
      compare();
    }
    ASSERT_EQ(store_->current(), model_.current());
    ASSERT_EQ(store_->compacted(), model_.compacted);
  }
  EXPECT_EQ(store_.problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, StoreProperty,
                         ::testing::Values(Backend::kLmdb, Backend::kMemory), &backend_name);

TEST_P(StoreProperty, WhenWrittenAtRandom_AnswersAsTheModelDoes) { run(20260101, 1'500); }
TEST_P(StoreProperty, WhenWrittenAtRandomOtherwise_AnswersAsTheModelDoes) { run(7, 1'500); }
TEST_P(StoreProperty, WhenWrittenWithAFreshSeed_AnswersAsTheModelDoes) {
  run(std::random_device()(), 1'500);
}

}  // namespace
}  // namespace kintsugi::store
