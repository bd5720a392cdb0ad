// Random clients, losses and refusals between shards whose histories are known: every stream must
// be exact.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/watch/stream_share.h"
#include "base/log.h"
#include "base/strings.h"
#include "krm/json.h"
#include "proxy/testing/history_shard.h"
#include "proxy/testing/second_loop.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using Shard = testing::HistoryShard;
using testing::Answer;
using testing::Change;
using testing::Exchange;
using testing::FakeShard;
using testing::Form;
using testing::number;
using testing::Rig;
using testing::SecondLoop;

constexpr std::size_t kShards = 3;
constexpr const char* kMaps = "/clusters/*/api/v1/configmaps";

struct Client {
  /// kPlain: present objects and what comes, without an end of the former.
  enum class Kind : std::uint8_t { kInitial, kCursor, kNative, kPlain } kind = Kind::kInitial;
  Form form = Form::kObject;
  bool marks = true;  ///< it asks for bookmarks
  Answer answer;
  std::size_t read = 0;                          ///< bytes of the answer
  std::string from;                              ///< what it asked for
  std::string before;                            ///< story of who stopped there
  std::array<std::uint64_t, kShards> start{};    ///< kCursor: components
  std::array<std::vector<Change>, kShards> got;  ///< events by shard
  /// By shard: what it has by now.
  std::array<std::map<std::string, std::uint64_t>, kShards> state;
  bool has_columns = false;           ///< a Table's, which come with its first event
  std::string cursor;                 ///< of the last bookmark
  decltype(state) state_at_cursor{};  ///< then
  std::uint64_t last_event = 0;
  bool synced = false, gone = false;
  bool repeats = false;  ///< it, or who it follows, may have got events again

  /// What it knows covers all shards.
  [[nodiscard]] bool synced_or_resumed() const {
    return synced || kind == Kind::kCursor || kind == Kind::kNative;
  }
  [[nodiscard]] bool has_all_in_time() const {
    return synced_or_resumed() || kind == Kind::kPlain || !marks;
  }
  [[nodiscard]] bool open() const { return answer.stream != nullptr && !answer.ended && !gone; }
};

class RandomWatches : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const auto at_once = [](net::UpstreamParams& params) { params.restart_window = Duration(); };
    rig_ = std::make_unique<Rig>(at_once, [this](ProxyHandlerParams& params) {
      set(params, [this] { return of_second(); });
    });
    rig_->log_in();
    if (std::getenv("KINTSUGI_RANDOM_DEBUG") != nullptr) {
      set_log_level(LogLevel::kDebug);
    }
    for (std::size_t i = 0; i < kShards; ++i) {
      FakeShard& server = i == 0 ? rig_->shard : shards_[i].server;
      server.complete = [this, i](Exchange& exchange) { shards_[i].answer(exchange); };
      for (int k = 0; k < 3; ++k) {
        shards_[i].write("ADDED", new_name(i), 1 + pick(3));
      }
      if (i > 0) {
        listeners_.push_back(Rig::must(net::Listener::open(rig_->loop, {}, server)));
        topology::ShardSpec spec;
        spec.name = "shard-" + std::to_string(i);
        spec.base_url = "http://127.0.0.1:" + std::to_string(listeners_.back()->port());
        rig_->add_shard(spec);
        leaver_ = spec;
      }
    }
    if (two_loops_) {
      second_ = std::make_unique<SecondLoop>(*rig_, at_once, [this](ProxyHandlerParams& params) {
        set(params, [this] { return of_first(); });
      });
    }
  }
  void TearDown() override {
    clients_.clear();
    second_.reset();
    for (const auto& listener : listeners_) {
      listener->close();
    }
  }

  using Place = std::pair<net::Loop*, ProxyHandler*>;
  Place of_first() { return {&rig_->loop, rig_->handler.get()}; }
  Place of_second() { return {&second_->loop, second_->handler.get()}; }
  /// @param other  where else events are delivered
  void set(ProxyHandlerParams& params, const std::function<Place()>& other) {
    params.wildcard = true;
    params.merge_options.allow_partial = true;
    params.merge_options.sequence = sequence_;
    aggregation::MergeParams& merge = params.merge_params;
    merge.bookmark_gap = milliseconds(1);
    merge.headers_wait = milliseconds(50);
    merge.group_linger = milliseconds(20);
    merge.group_log = 8U << 10;
    merge.slow_grace = milliseconds(20);
    merge.rights_age = milliseconds(5);
    merge.first_backoff = milliseconds(1);
    merge.last_backoff = milliseconds(4);
    merge.expire_spread = milliseconds(20);
    merge.expire_rate = 1000;
    if (!two_loops_) {
      return;
    }
    params.homes = homes_;
    params.find_deliveries = [this, other, &loop = params.loop](
                                 const std::string& key, std::uint64_t revision,
                                 std::vector<bool> members,
                                 std::function<void(aggregation::ResumeRing::Found)> done) {
      ProxyHandler* here = (&loop == &rig_->loop ? of_first() : of_second()).second;
      const auto [there, handler] = other();
      there->post([=, &loop, handler = handler, own = here->find_delivery(key, revision, members)] {
        loop.post([=, part = handler->find_delivery(key, revision, members)]() mutable {
          own.meet(part);
          done(std::move(own));
        });
      });
    };
  }

  std::uint32_t pick(std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_);
  }
  std::string new_name(std::size_t shard) {
    return std::string(1, static_cast<char>('a' + shard)) + std::to_string(++names_);
  }
  Shard& any_shard() { return shards_[pick(kShards)]; }

  void turn(Duration length) {
    const TimePoint end = rig_->loop.now() + length;
    rig_->until([&] { return rig_->loop.now() >= end; });
    for (Shard& shard : shards_) {
      shard.forget_ended();
    }
    for (Client& client : clients_) {
      read(client);
    }
  }

  void begin(Client::Kind kind, const Client* after) {
    Client& client = clients_.emplace_back();
    client.kind = kind;
    client.repeats = kind == Client::Kind::kNative || (after != nullptr && after->repeats);
    client.form = kind == Client::Kind::kNative ? after->form  // the same group has to know it
                                                : static_cast<Form>(pick(8) / 3);
    client.marks = pick(5) != 0;
    std::string query = "?watch=1";
    query += client.marks ? "&allowWatchBookmarks=true" : "";
    switch (kind) {
      case Client::Kind::kPlain:
        query += pick(2) == 0 ? "" : "&resourceVersion=0";
        break;
      case Client::Kind::kInitial:
        query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        break;
      case Client::Kind::kCursor:
        client.from = after->cursor;
        for (std::size_t i = 0; i < kShards && !sequence_; ++i) {
          client.start[i] = component(client.from, i);
        }
        break;
      case Client::Kind::kNative:
        client.from = std::to_string(after->last_event);
        for (std::size_t i = 0; i < kShards; ++i) {  // what it has had
          client.start[i] =
              after->cursor.empty() || sequence_ ? after->start[i] : component(after->cursor, i);
          for (const Change& one : after->got[i]) {
            client.start[i] = std::max(client.start[i], one.revision);
          }
        }
        break;
    }
    for (std::size_t i = 0; i < kShards && after != nullptr; ++i) {
      client.state[i] = kind != Client::Kind::kCursor ? after->state[i]
                        : sequence_                   ? after->state_at_cursor[i]
                                                      : shards_[i].state_at(client.start[i]);
    }
    if (!client.from.empty()) {
      query += "&resourceVersion=" + client.from;
    }
    http::RequestHead head = Rig::get(kMaps + query);
    head.headers.add("accept", testing::accept_of(client.form));
    if (after != nullptr) {
      client.before = "\nafter" + story(*after);
    }
    if (second_ != nullptr && pick(2) == 0) {
      second_->send(client.answer, head);
    } else {
      rig_->send(client.answer, head);
    }
  }

  static std::uint64_t component(const std::string& cursor, std::size_t slot) {
    return number(std::string_view(cursor).substr(15 + 20 * slot).substr(0, 20));
  }

  void read(Client& client) {
    const std::string_view all = client.answer.body;
    for (std::size_t end = all.find('\n', client.read);
         end != std::string_view::npos && !client.gone && !HasFailure();
         end = all.find('\n', client.read)) {
      const auto event = Json::parse(all.substr(client.read, end - client.read));
      client.read = end + 1;
      ASSERT_TRUE(event) << all;
      take(client, *event);
    }
  }

  void take(Client& client, const Json& event) {
    const std::string_view type = event.text({"type"});
    if (client.answer.status != 200) {
      client.gone = true;
      return;
    }
    if (type == "ERROR") {
      client.gone = true;
      const std::int64_t code = event.find("object")->find("code")->as_integer();
      EXPECT_TRUE(code == 410 || (code == 503 && client.kind == Client::Kind::kPlain) ||
                  (code == 503 && client.kind == Client::Kind::kInitial) || code == 429)
          << event.dump();
      EXPECT_TRUE(disturbs_ || client.kind != Client::Kind::kCursor)
          << event.dump() << story(client);
      return;
    }
    const Json* object = event.find("object");
    ASSERT_NE(object, nullptr);
    if (client.form == Form::kTable) {
      ASSERT_EQ(object->find("rows")->size(), 1U) << event.dump();
      EXPECT_EQ(object->find("columnDefinitions")->is_array(), !client.has_columns)
          << event.dump() << story(client);
      client.has_columns = true;
      object = object->find("rows")->items().front().find("object");
    }
    EXPECT_EQ(object->text({"kind"}),
              client.form == Form::kObject ? "ConfigMap" : "PartialObjectMetadata");
    const std::string_view version = object->text({"metadata", "resourceVersion"});
    if (type == "BOOKMARK") {
      EXPECT_TRUE(client.marks) << event.dump() << story(client);
      client.synced = client.synced || object->at({"metadata", "annotations"}) != nullptr;
      EXPECT_FALSE(client.synced && client.kind != Client::Kind::kInitial) << story(client);
      take_cursor(client, std::string(version));
      return;
    }
    const std::string_view name = object->text({"metadata", "name"});
    const std::size_t shard = static_cast<std::size_t>(name.front() - 'a');
    const std::uint64_t revision = number(version);
    client.got[shard].push_back({revision, std::string(type), std::string(name)});
    Shard::apply(client.state[shard], client.got[shard].back());
    client.last_event = revision;
    if (disturbs_) {  // differences may come instead of events
    } else if (client.kind == Client::Kind::kCursor && !sequence_) {
      check_prefix(client, shard);
    } else if (client.kind != Client::Kind::kNative) {
      check_growth(client, shard);
    }
  }

  void take_cursor(Client& client, const std::string& cursor) {
    if (sequence_) {
      ASSERT_LT(cursor.size(), 20U);
      EXPECT_GE(number(cursor), number(client.cursor)) << story(client);
      client.cursor = cursor;
      client.state_at_cursor = client.state;
      if (client.has_all_in_time() && client.kind != Client::Kind::kPlain) {
        // Who gets one number has one state.
        const auto [known, is_new] = states_.try_emplace(cursor, client.state);
        EXPECT_TRUE(is_new || known->second == client.state || client.repeats)
            << cursor << story(client);
      }
      return;
    }
    ASSERT_EQ(cursor.size(), 15 + 20 * kShards);
    EXPECT_GE(cursor, client.cursor) << story(client);
    client.cursor = cursor;
    for (std::size_t i = 0; i < kShards; ++i) {
      check_position(client, i, component(cursor, i));
    }
  }

  /// What a stream that began at a cursor has to bring of a shard.
  [[nodiscard]] std::vector<Change> wanted(const Client& client, std::size_t shard) const {
    std::vector<Change> out;
    for (const Change& one : shards_[shard].changes) {
      if (one.revision > client.start[shard]) {
        out.push_back(one);
      }
    }
    return out;
  }
  void check_prefix(const Client& client, std::size_t shard) {
    const std::vector<Change> all = wanted(client, shard);
    const std::vector<Change>& got = client.got[shard];
    ASSERT_LE(got.size(), all.size()) << story(client);
    ASSERT_EQ(got.back(), all[got.size() - 1]) << story(client);
  }
  /// Initial events come in any order, then every object goes forward.
  void check_growth(const Client& client, std::size_t shard) {
    const std::vector<Change>& got = client.got[shard];
    for (std::size_t i = 0; i + 1 < got.size(); ++i) {
      ASSERT_FALSE(got[i].name == got.back().name && got[i].revision >= got.back().revision)
          << story(client);
    }
  }
  void check_position(const Client& client, std::size_t shard, std::uint64_t component) {
    const bool knows = client.kind == Client::Kind::kCursor ||
                       (client.kind == Client::Kind::kInitial && client.synced) ||
                       (client.kind == Client::Kind::kPlain && component > 1);
    if (knows && component != 1) {
      EXPECT_EQ(client.state[shard], shards_[shard].state_at(component))
          << "shard " << shard << " at " << component << story(client);
    }
    if (client.kind != Client::Kind::kCursor || disturbs_) {
      return;
    }
    const auto behind = [component](const Change& one) { return one.revision <= component; };
    const std::vector<Change> all = wanted(client, shard);
    EXPECT_EQ(static_cast<std::size_t>(std::count_if(all.begin(), all.end(), behind)),
              client.got[shard].size())
        << "at " << component << story(client);
  }

  [[nodiscard]] bool is_done(const Client& client, std::size_t shard) const {
    const std::vector<Change>& got = client.got[shard];
    const std::vector<Change>& all = shards_[shard].changes;
    if (disturbs_ || sequence_ || client.kind == Client::Kind::kInitial ||
        client.kind == Client::Kind::kPlain) {
      const bool here = shard != kLeaver || is_member_;
      return client.has_all_in_time() &&
             client.state[shard] ==
                 (here ? shards_[shard].state : std::map<std::string, std::uint64_t>());
    }
    switch (client.kind) {
      case Client::Kind::kCursor:
        return got == wanted(client, shard);
      case Client::Kind::kNative:  // contiguous, up to the end, from where it had been or before
        return got.size() <= all.size() && wanted(client, shard).size() <= got.size() &&
               std::equal(got.rbegin(), got.rend(), all.rbegin());
      case Client::Kind::kInitial:
      case Client::Kind::kPlain:
        break;
    }
    return false;
  }

  [[nodiscard]] std::string story(const Client& client) const {
    std::string out =
        "\nkind " + std::to_string(static_cast<int>(client.kind)) + " from " + client.from;
    for (std::size_t i = 0; i < kShards; ++i) {
      out += "\nshard " + std::to_string(i) + " from " + std::to_string(client.start[i]) + " got";
      for (const Change& one : client.got[i]) {
        out += ' ' + one.name + '@' + std::to_string(one.revision);
      }
      out += "\n  of";
      for (const Change& one : shards_[i].changes) {
        out += ' ' + one.name + '@' + std::to_string(one.revision);
      }
    }
    return out + "\nbehind " + client.cursor + " audit " + client.answer.header("audit-id") +
           client.before + "\n";
  }

  void leave_or_join() {
    is_member_ = !is_member_;
    if (is_member_) {
      rig_->index.upsert_shard(leaver_);
    } else {
      rig_->index.delete_shard(leaver_.name);
    }
    rig_->publisher.publish(rig_->index.freeze());
  }
  /// The table of slots comes a while after the change that it is made for.
  void follow_slots() {
    aggregation::SlotChange change;
    for (const auto& known : rig_->index.now().shards()) {
      change.present.push_back(known->spec.name);
    }
    if (rig_->slots->changed(change, 1)) {
      rig_->give_slots(rig_->slots);
      if (second_ != nullptr) {
        second_->take_slots();
      }
    }
  }

  void act() {
    Shard& shard = any_shard();
    Shard::Stream* stream = nullptr;
    if (!shard.streams.empty()) {
      stream = &*std::next(shard.streams.begin(),
                           pick(static_cast<std::uint32_t>(shard.streams.size())));
      stream = stream->exchange->stream == nullptr ? nullptr : stream;
    }
    Client* client = nullptr;
    if (!clients_.empty()) {
      client = &*std::next(clients_.begin(), pick(static_cast<std::uint32_t>(clients_.size())));
    }
    switch (const std::uint32_t what = pick(disturbs_ ? 45 : 40)) {
      case 40:
        shard.forgotten = shard.head - pick(4);
        if (stream != nullptr) {
          stream->exchange->stream->reset(Errc::kInternal);
        }
        break;
      case 41:
        shard.forgotten = shard.head - pick(4);
        break;
      case 42:
        leave_or_join();
        turn(milliseconds(1));
        break;
      case 43:
      case 44:
        follow_slots();
        break;
      case 0:
      case 1:
        shard.refusal = std::array{429, 503, 500}[pick(3)];
        break;
      case 2:
      case 3:
      case 4:
        shard.refusal = 0;
        break;
      case 5:
      case 6:
        if (stream != nullptr) {
          stream->exchange->stream->reset(Errc::kInternal);
        }
        break;
      case 7:
      case 8:
        if (stream != nullptr) {
          stream->exchange->stream->send_data("", true);
        }
        break;
      case 9:
      case 10:
        begin(pick(3) == 0 ? Client::Kind::kPlain : Client::Kind::kInitial, nullptr);
        break;
      case 11:
      case 12:
      case 13:
      case 14:
        if (client != nullptr && !client->cursor.empty() && client->synced_or_resumed()) {
          begin(Client::Kind::kCursor, client);
        }
        break;
      case 15:
      case 16:
        if (client != nullptr && client->last_event != 0 && client->synced_or_resumed()) {
          begin(Client::Kind::kNative, client);
        }
        break;
      case 17:
      case 18:
      case 19:
        if (client != nullptr && client->answer.stream != nullptr) {
          client->answer.stream->reset(Errc::kCancelled);
        }
        break;
      default:
        if (what < 26) {
          const std::size_t at = static_cast<std::size_t>(&shard - shards_.data());
          if (shard.state.empty() || pick(3) == 0) {
            shard.write("ADDED", new_name(at), 1 + pick(3));
          } else {
            const std::string name =
                std::next(shard.state.begin(), pick(static_cast<std::uint32_t>(shard.state.size())))
                    ->first;
            shard.write(pick(3) == 0 ? "DELETED" : "MODIFIED", name, 1 + pick(3));
          }
        } else if (stream != nullptr && what < 38) {
          shard.tell(*stream, 1 + pick(4));
        } else if (stream != nullptr) {
          shard.tell_bookmark(*stream);
        }
    }
  }

  /// The whole story.
  void play() {
    for (int step = 0; step < 400 && !HasFailure(); ++step) {
      for (std::uint32_t actions = 1 + pick(6); actions > 0; --actions) {
        act();
      }
      turn(milliseconds(pick(4)));
      if (clients_.size() > 40) {
        clients_.remove_if([](const Client& one) { return !one.open(); });
      }
    }
    for (Shard& shard : shards_) {
      shard.refusal = 0;
    }
    if (!is_member_) {
      leave_or_join();
    }
    turn(milliseconds(1));
    follow_slots();
    begin(Client::Kind::kInitial, nullptr);
    const auto all_done = [this] {
      return std::all_of(clients_.begin(), clients_.end(), [this](const Client& client) {
        return !client.open() || (is_done(client, 0) && is_done(client, 1) && is_done(client, 2));
      });
    };
    testing::tell_the_rest(
        shards_, [&] { return HasFailure() || all_done(); }, [this] { turn(milliseconds(1)); });
    for (const Client& client : clients_) {
      for (std::size_t i = 0; i < kShards && client.open(); ++i) {
        EXPECT_TRUE(is_done(client, i)) << "shard " << i << story(client);
      }
    }
  }

  std::minstd_rand random_{GetParam()};
  static constexpr std::size_t kLeaver = kShards - 1;
  bool two_loops_ = false;  ///< clients come to either, which share their streams of shards
  std::shared_ptr<aggregation::StreamHomes> homes_ = std::make_shared<aggregation::StreamHomes>();
  std::unique_ptr<SecondLoop> second_;
  bool sequence_ = false;  ///< cursors are numbers: what they stand for only the proxy knows
  std::map<std::string, decltype(Client::state)> states_;  ///< sequence_: at cursors
  bool disturbs_ = false;  ///< shards forget their history, and one leaves and comes back
  bool is_member_ = true;
  topology::ShardSpec leaver_;
  std::uint32_t names_ = 0;
  std::array<Shard, kShards> shards_;
  std::unique_ptr<Rig> rig_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::list<Client> clients_;
};

TEST_P(RandomWatches, AGG520_AGG702_WhateverHappens_EveryStreamIsExact) { play(); }

TEST_P(RandomWatches, AGG505_AGG1002_WhateverIsForgotten_EveryBookmarkIsTrue) {
  disturbs_ = true;
  play();
}

class RandomSequences : public RandomWatches {
 protected:
  RandomSequences() { sequence_ = true; }
};

TEST_P(RandomSequences, AGG516_AGG702_WhateverHappens_EveryStreamHasAll) { play(); }

TEST_P(RandomSequences, AGG516_AGG1002_WhateverIsForgotten_EveryStreamHasAll) {
  disturbs_ = true;
  play();
}

class RandomLoops : public RandomWatches {
 protected:
  RandomLoops() { two_loops_ = true; }
};

TEST_P(RandomLoops, AGG902_AGG702_WhateverHappens_EveryStreamIsExact) { play(); }

TEST_P(RandomLoops, AGG902_AGG1002_WhateverIsForgotten_EveryBookmarkIsTrue) {
  disturbs_ = true;
  play();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoops, ::testing::ValuesIn(testing::random_seeds()));
INSTANTIATE_TEST_SUITE_P(Seeds, RandomWatches, ::testing::ValuesIn(testing::random_seeds()));
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSequences, ::testing::ValuesIn(testing::random_seeds()));

}  // namespace
}  // namespace kintsugi::proxy
