// A logical cluster that moves to and fro between two shards while it is written to, read by
// streams that are behind by random amounts: in the end everybody has what its owner has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "proxy/testing/history_shard.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Form;
using testing::number;
using testing::Rig;
using Shard = testing::HistoryShard;
using Objects = std::map<std::string, std::uint64_t>;

constexpr std::uint64_t kSecondBegins = 1'000'000;  ///< revisions of the second shard

/// What a client has been told.
struct Known {
  Objects moving, staying;
  /// By object: the last time of an owner, counted from 0, that an event can be of.
  std::map<std::string, std::size_t> times;
  std::size_t begun = 0;  ///< the same of all others
  std::string story;
  bool synced = false;
};

struct Client : Known {
  Form form = Form::kObject;
  Answer answer;
  std::size_t read = 0;
  bool gone = false;
};

/// A bookmark, and who was there.
struct Place {
  std::string cursor;
  Known known;
};

class RandomMoves : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    rig_ = std::make_unique<Rig>(
        [](net::UpstreamParams& params) { params.restart_window = Duration(); },
        [](ProxyHandlerParams& params) {
          params.wildcard = true;
          aggregation::MergeParams& merge = params.merge_params;
          merge.bookmark_gap = milliseconds(1);
          merge.first_backoff = milliseconds(1);
          merge.last_backoff = milliseconds(4);
          merge.group_linger = milliseconds(20);
          merge.group_log = 2U << 10;
          merge.slow_grace = milliseconds(20);
          merge.rights_age = milliseconds(5);
          merge.expire_spread = milliseconds(5);
          merge.expire_rate = 1000;
        });
    rig_->log_in();
    shards_[1].head = kSecondBegins;
    for (std::size_t i = 0; i < 2; ++i) {
      shards_[i].cluster_of = [i](const std::string& name) {
        return name.front() == 'm' ? "c9" : "own" + std::to_string(i);
      };
      FakeShard& server = i == 0 ? rig_->shard : shards_[i].server;
      server.complete = [this, i](Exchange& exchange) { shards_[i].answer(exchange); };
      shards_[i].write("ADDED", "s" + std::to_string(i), 1);
    }
    listener_ = Rig::must(net::Listener::open(rig_->loop, {}, shards_[1].server));
    topology::ShardSpec spec;
    spec.name = "beta";
    spec.base_url = "http://127.0.0.1:" + std::to_string(listener_->port());
    rig_->add_shard(spec);
    for (int i = 0; i < 4; ++i) {
      shards_[0].write("ADDED", new_name(), 1);
    }
    own(0);
  }
  void TearDown() override {
    clients_.clear();
    listener_->close();
  }

  std::uint32_t pick(std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_);
  }
  std::string new_name() { return "m" + std::to_string(++names_); }
  static Objects moving_of(const Shard& shard) {
    Objects out;
    for (const auto& [name, revision] : shard.state) {
      if (name.front() == 'm') {
        out.emplace(name, revision);
      }
    }
    return out;
  }
  void own(std::size_t shard) {
    owner_ = shard;
    owners_.push_back(shard);
    ++shards_[shard].head;  // its LogicalCluster is written
    const topology::ShardInfo* info =
        rig_->view->current().shard(shard == 0 ? std::string_view("alpha") : "beta");
    ASSERT_NE(info, nullptr);
    rig_->index.upsert_cluster(info->id, {"c9", "root:nine", {}, false});
    rig_->publisher.publish(rig_->index.freeze());
    story_ += " owner " + std::to_string(shard) + " at " + std::to_string(shards_[0].head) + ',' +
              std::to_string(shards_[1].head);
  }

  void turn(Duration length) {
    const TimePoint end = rig_->loop.now() + length;
    rig_->until([&] { return rig_->loop.now() >= end; });
    known_ = std::exchange(soon_known_, owners_.size() - 1);
    for (Shard& shard : shards_) {
      shard.forget_ended();
    }
    for (Client& client : clients_) {
      read(client);
    }
  }

  void begin() {
    Client& client = clients_.emplace_back();
    client.begun = known_;
    send(client, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
  }
  void resume(const Place& at) {
    Client& client = clients_.emplace_back();
    static_cast<Known&>(client) = at.known;
    client.story += " behind " + at.cursor;
    send(client, "&resourceVersion=" + at.cursor);
  }
  void send(Client& client, const std::string& query) {
    client.form = static_cast<Form>(pick(3));
    http::RequestHead head =
        Rig::get("/clusters/*/api/v1/configmaps?watch=1&allowWatchBookmarks=true" + query);
    head.headers.add("accept", testing::accept_of(client.form));
    rig_->send(client.answer, head);
  }

  void read(Client& client) {
    const std::string_view all = client.answer.body;
    for (std::size_t end = all.find('\n', client.read);
         end != std::string_view::npos && !client.gone; end = all.find('\n', client.read)) {
      const auto event = Json::parse(all.substr(client.read, end - client.read));
      client.read = end + 1;
      ASSERT_TRUE(event) << all;
      take(client, *event);
    }
    client.gone = client.gone || client.answer.ended || client.answer.closed;
  }

  void take(Client& client, const Json& event) {
    const std::string_view type = event.text({"type"});
    const Json* object = event.find("object");
    if (client.answer.status != 200 || type == "ERROR") {
      client.gone = true;
      ++refused_;
      EXPECT_EQ(object->find("code")->as_integer(), 410) << event.dump();
      return;
    }
    if (client.form == Form::kTable) {
      ASSERT_EQ(object->find("rows")->size(), 1U) << event.dump();
      object = object->find("rows")->items().front().find("object");
    }
    if (type == "BOOKMARK") {
      client.synced = client.synced || object->at({"metadata", "annotations"}) != nullptr;
      if (client.synced && pick(3) == 0) {
        keep(client, std::string(object->text({"metadata", "resourceVersion"})));
      }
      return;
    }
    const std::string name(object->text({"metadata", "name"}));
    const std::uint64_t revision = number(object->text({"metadata", "resourceVersion"}));
    client.story += ' ' + std::string(type.substr(0, 1)) + name + '@' + std::to_string(revision);
    if (name.front() == 'm' && type != "DELETED") {
      check_time(client, name, revision < kSecondBegins ? 0 : 1);
    }
    Objects& objects = name.front() == 'm' ? client.moving : client.staying;
    Shard::apply(objects, {revision, std::string(type), name});
  }

  void keep(const Client& client, const std::string& cursor) {
    places_[next_place_++ % places_.size()] = {cursor, client};
  }
  /// No object goes back to what its former owner said.
  void check_time(Client& client, const std::string& name, std::size_t shard) {
    std::size_t& time = client.times.emplace(name, client.begun).first->second;
    while (time < owners_.size() && owners_[time] != shard) {
      ++time;
    }
    EXPECT_LT(time, owners_.size()) << client.story << "\nstory" << story_ << history(name);
  }

  /// The cluster is written to where it is owned, and goes on with its journey.
  void act() {
    Shard& owner = shards_[owner_];
    Shard& other = shards_[1 - owner_];
    const Objects here = moving_of(owner);
    const Objects there = moving_of(other);
    switch (pick(15)) {
      case 0:
        owner.write("ADDED", new_name(), 1 + pick(3));
        break;
      case 1:
      case 2:
        if (!here.empty()) {
          const std::string name =
              std::next(here.begin(), pick(static_cast<std::uint32_t>(here.size())))->first;
          const bool deletes = pick(3) == 0;
          owner.write(deletes ? "DELETED" : "MODIFIED", name, 1 + pick(3));
          if (deletes && copies_ && there.contains(name)) {  // the journey follows
            other.write("DELETED", name, 1);
          }
        }
        break;
      case 3:
        copies_ = copies_ || there.empty();
        break;
      case 4:
      case 5:
        if (copies_) {
          for (const auto& [name, revision] : here) {
            if (!there.contains(name)) {
              other.write("ADDED", name, 1 + pick(2));
              return;
            }
          }
          if (!here.empty()) {  // all is there
            copies_ = false;
            own(1 - owner_);
          }
        }
        break;
      case 6:
        if (!copies_ && !there.empty()) {  // what it left is cleared away
          other.write("DELETED", there.begin()->first, 1);
        }
        break;
      case 7:
        shards_[pick(2)].write("MODIFIED", "s0", 1);
        break;
      case 8:
        if (clients_.size() < 12) {
          begin();
        }
        break;
      case 9:
      case 10:
        if (const Place& at = places_[pick(static_cast<std::uint32_t>(places_.size()))];
            clients_.size() < 12 && !at.cursor.empty()) {
          resume(at);
        }
        break;
      case 11:
        if (!clients_.empty()) {
          Client& client =
              *std::next(clients_.begin(), pick(static_cast<std::uint32_t>(clients_.size())));
          if (client.answer.stream != nullptr) {
            client.answer.stream->reset(Errc::kCancelled);
          }
          client.gone = true;
        }
        break;
      default:
        for (Shard& shard : shards_) {
          for (Shard::Stream& stream : shard.streams) {
            if (stream.exchange->stream != nullptr && pick(2) == 0) {
              shard.tell(stream, 1 + pick(4));
            }
          }
        }
    }
  }

  [[nodiscard]] bool has_all(const Client& client) const {
    return client.gone || (client.synced && client.moving == moving_of(shards_[owner_]));
  }

  [[nodiscard]] std::string history(const std::string& name) const {
    std::string out;
    for (const Shard& shard : shards_) {
      out += " [";
      for (const testing::Change& one : shard.changes) {
        out += one.name == name ? ' ' + one.type.substr(0, 1) + std::to_string(one.revision) : "";
      }
      out += " ]";
    }
    return out;
  }

  [[nodiscard]] std::string difference(const Client& client) const {
    const Objects wanted = moving_of(shards_[owner_]);
    std::string out;
    for (const auto& [name, revision] : wanted) {
      const auto found = client.moving.find(name);
      if (found == client.moving.end() || found->second != revision) {
        out += " lacks " + name + '@' + std::to_string(revision);
      }
    }
    for (const auto& [name, revision] : client.moving) {
      out += wanted.contains(name)
                 ? ""
                 : " has " + name + '@' + std::to_string(revision) + history(name);
    }
    return out + (client.synced ? "" : " is not synced");
  }

  std::string story_;  ///< of the cluster's journeys
  std::minstd_rand random_{GetParam()};
  std::array<Shard, 2> shards_;
  std::unique_ptr<Rig> rig_;
  std::unique_ptr<net::Listener> listener_;
  std::list<Client> clients_;
  std::size_t owner_ = 0;
  std::vector<std::size_t> owners_;
  std::size_t known_ = 0, soon_known_ = 0;  ///< to the proxy: the time of an owner
  std::array<Place, 12> places_;
  std::size_t next_place_ = 0;
  std::uint32_t names_ = 0;
  int refused_ = 0;
  bool copies_ = false;
};

TEST_P(RandomMoves, AGG11_T110_WhateverHappens_EverybodyHasWhatTheOwnerHas) {
  begin();
  for (int step = 0; step < 300 && !HasFailure(); ++step) {
    for (std::uint32_t actions = 1 + pick(5); actions > 0; --actions) {
      act();
    }
    turn(milliseconds(pick(3)));
    clients_.remove_if([](const Client& one) { return one.gone; });
  }
  begin();
  const auto all_done = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [this](const Client& client) { return has_all(client); });
  };
  testing::tell_the_rest(
      shards_, [&] { return HasFailure() || all_done(); }, [this] { turn(milliseconds(1)); });
  for (const Client& client : clients_) {
    EXPECT_TRUE(has_all(client)) << "owner " << owner_ << difference(client) << "\nclient got"
                                 << client.story << "\nstory" << story_;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMoves, ::testing::ValuesIn(testing::random_seeds()));

}  // namespace
}  // namespace kintsugi::proxy
