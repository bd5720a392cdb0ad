#include "workers/eventing/control/internal/kafka_book.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/work_pool.h"
#include "workers/eventing/model/group_report.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kFirstPause = seconds(1), kLastPause = seconds(60);

net::WorkPool& questions() {
  static net::WorkPool& pool = net::WorkPool::make(
      {.thread_name = "kafka-facts", .threads = 8, .of_one = 3, .waiting = 65'536});
  return pool;
}

}  // namespace

KafkaBook::KafkaBook(net::Loop& loop, Duration every,
                     std::function<void(const std::string&)> answered)
    : loop_(loop), every_(every), answered_(std::move(answered)) {}

const KafkaFacts* KafkaBook::facts(const std::string& key, const KafkaQuestion& question) {
  Page& page = pages_[key];
  // Whether it has to begin at the end is asked once, with the rest of a new question.
  KafkaQuestion same = question;
  same.begin_at_end = page.question.begin_at_end;
  if (!(page.question == same) || (question.begin_at_end && !page.question.begin_at_end)) {
    page = Page{};
    page.question = question;
  }
  if (page.asking == nullptr && loop_.now() >= page.ask_at) {
    page.question.begin_at_end = question.begin_at_end;
    ask(key, page);
  }
  return page.facts ? &*page.facts : nullptr;
}

void KafkaBook::ask(const std::string& key, Page& page) {
  const auto found = std::make_shared<KafkaFacts>();
  page.asking = questions().run(
      loop_, page.question.bootstrap_servers,
      [found, question = page.question] { *found = ask_kafka(question); },
      alive_.guard([this, key, found] { take(key, std::move(*found)); }));
  if (page.asking == nullptr) {  // too many wait
    page.ask_at = loop_.now() + kFirstPause;
  }
}

void KafkaBook::take(const std::string& key, KafkaFacts facts) {
  const auto at = pages_.find(key);
  if (at == pages_.end()) {
    return;
  }
  Page& page = at->second;
  page.asking.reset();
  const bool good = facts.fault == KafkaFacts::Fault::kNone;
  ++(good ? counts_.good : counts_.bad);
  page.failures = good ? 0 : std::min(page.failures + 1, 16);
  page.ask_at =
      loop_.now() +
      (good ? every_ : std::min<Duration>(kFirstPause * (1 << (page.failures - 1)), kLastPause));
  page.facts = std::move(facts);
  answered_(key);
}

std::optional<Duration> KafkaBook::due(std::string_view key) const {
  const auto at = pages_.find(key);
  if (at == pages_.end() || at->second.asking != nullptr) {
    return std::nullopt;
  }
  return std::max<Duration>(at->second.ask_at - loop_.now(), milliseconds(10));
}

void KafkaBook::forget(std::string_view key) {
  if (const auto at = pages_.find(key); at != pages_.end()) {
    pages_.erase(at);
  }
  if (const auto at = leaving_.find(key); at != leaving_.end()) {
    leaving_.erase(at);
  }
}

const KafkaBook::Farewell& KafkaBook::farewell(const std::string& key, const KafkaQuestion& of) {
  Leaving& one = leaving_[key];
  const bool over =
      one.how.deleted || one.how.can_delete == false || one.how.tries >= kMostDeleteTries;
  if (over || one.asking != nullptr || loop_.now() < one.ask_at) {
    return one.how;
  }
  const auto found = std::make_shared<KafkaGroupDeletion>();
  one.asking = questions().run(
      loop_, of.bootstrap_servers,
      [found, of] { *found = delete_kafka_group(of.bootstrap_servers, of.group, of.timeout); },
      alive_.guard([this, key, found] { left(key, *found); }));
  one.ask_at = loop_.now() + kFirstPause;  // where too many wait
  return one.how;
}

void KafkaBook::left(const std::string& key, const KafkaGroupDeletion& answer) {
  using Result = KafkaGroupDeletion::Result;
  ++counts_.deletions[static_cast<std::size_t>(answer.result)];
  const auto at = leaving_.find(key);
  if (at == leaving_.end()) {
    return;
  }
  Leaving& one = at->second;
  one.asking.reset();
  if (answer.result == Result::kFailed) {
    one.ask_at = loop_.now() + kFirstPause * (1 << one.how.tries++);
    log_warn("a group is not deleted in Kafka",
             {{"group", key}, {"try", std::to_string(one.how.tries)}, {"why", answer.text}});
  } else {
    one.how.can_delete = answer.result != Result::kNotOffered;
    one.how.deleted = answer.result == Result::kDeleted;
  }
  answered_(key);
}

std::optional<Duration> KafkaBook::farewell_due(std::string_view key) const {
  const auto at = leaving_.find(key);
  if (at == leaving_.end() || at->second.asking != nullptr) {
    return std::nullopt;
  }
  return std::max<Duration>(at->second.ask_at - loop_.now(), milliseconds(10));
}

}  // namespace kintsugi::workers
