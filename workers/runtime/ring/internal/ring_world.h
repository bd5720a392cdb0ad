#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "workers/runtime/ring/internal/ring_node.h"

namespace kintsugi::workers {

/// For tests: several RingNodes, one API with preconditions, a virtual clock, delays and losses.
/// After each step it checks that no partition is acted on by two, that epochs only rise and that
/// no two members have the same one. What a paused node may do is what it might do if it woke now.
class RingWorld {
 public:
  struct Faults {
    Duration latency = milliseconds(2);  ///< of each way, at least
    Duration jitter = milliseconds(3);
    double slow = 0;  ///< share of ways that take up to 6 s more
    double lose_request = 0;
    double lose_answer = 0;
    Duration drain = milliseconds(50);  ///< up to so long
  };

  explicit RingWorld(std::uint64_t seed) : random_(seed) {}
  RingWorld(std::uint64_t seed, const Faults& faults) : random_(seed), faults_(faults) {}

  [[nodiscard]] TimePoint now() const { return now_; }
  Faults& faults() { return faults_; }

  /// @param offset  of its monotonic clock; @param rate  of it. @param wall  of its wall clock.
  std::size_t add(Duration offset = Duration::zero(), double rate = 1, Duration wall = {}) {
    const std::size_t index = nodes_.size();
    auto worker = std::make_unique<Worker>();
    RingNodeParams params;
    params.role = "delivery";
    params.identity = "h-" + std::to_string(index) + "-" + std::to_string(random_());
    params.seed = random_();
    for (const auto& [epoch, owner] : epochs_) {
      params.partition_epoch = std::max(params.partition_epoch, epoch);  // as the journal has it
    }
    EXPECT_TRUE(RingNode::validate(params));
    worker->node = std::make_unique<RingNode>(params);
    worker->identity = params.identity;
    worker->offset = offset;
    worker->rate = rate;
    worker->wall = wall;
    nodes_.push_back(std::move(worker));
    at(Duration::zero(), index, [this, index] {
      Worker& w = *nodes_[index];
      apply(index, w.node->set_weights(weights_, local(w)));
      apply(index, w.node->start(local(w)));
      // The list of its watches.
      for (const auto& [name, lease] : leases_) {
        apply(index, w.node->on_lease_event(lease, local(w)));
      }
      if (!ring_rv_.empty()) {
        apply(index, w.node->on_ring_event(ring_rv_, ring_text_, local(w)));
      }
    });
    return index;
  }

  void kill(std::size_t index) { nodes_[index]->alive = false; }
  void pause(std::size_t index, Duration time) { nodes_[index]->paused_until = now_ + time; }
  /// Cut from the API, watches too.
  void cut(std::size_t index, Duration time) { nodes_[index]->cut_until = now_ + time; }
  void stall_watch(std::size_t index, Duration time) { nodes_[index]->watch_until = now_ + time; }
  void never_drain(std::size_t index) { nodes_[index]->drains = false; }
  void leave(std::size_t index) {
    at(Duration::zero(), index,
       [this, index] { apply(index, nodes_[index]->node->leave(local(*nodes_[index]))); });
  }
  void peer_epoch(std::size_t index, PartitionId partition, std::uint32_t epoch) {
    at(Duration::zero(), index, [this, index, partition, epoch] {
      Worker& w = *nodes_[index];
      apply(index, w.node->on_peer_epoch(partition, epoch, local(w)));
    });
  }
  void set_weights(const std::array<std::uint32_t, kRingPartitions>& weights) {
    weights_ = weights;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      at(Duration::zero(), i,
         [this, i] { apply(i, nodes_[i]->node->set_weights(weights_, local(*nodes_[i]))); });
    }
  }
  void delete_ring() {
    ring_rv_.clear();
    ring_text_.clear();
    tell([](RingNode& node, TimePoint when) { return node.on_ring_deleted(when); });
  }
  void replace_ring(std::string text) { store_ring(std::move(text)); }
  void delete_lease(const std::string& name) {
    const auto place = leases_.find(name);
    if (place != leases_.end()) {
      const std::string uid = place->second.uid;
      leases_.erase(place);
      tell([name, uid](RingNode& node, TimePoint when) {
        return node.on_lease_deleted(name, uid, when);
      });
    }
  }

  void run(Duration time) {
    const TimePoint end = now_ + time;
    while (!queue_.empty() && queue_.top().when <= end) {
      Event event = queue_.top();
      queue_.pop();
      now_ = event.when;
      if (event.node != kWorld) {
        Worker& w = *nodes_[event.node];
        if (!w.alive) {
          continue;
        }
        if (now_ < w.paused_until) {
          event.when = w.paused_until;
          event.sequence = ++sequence_;
          queue_.push(std::move(event));
          continue;
        }
      }
      event.run();
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
    now_ = end;
  }
  /// Runs until the condition holds; false when it did not within the time.
  bool run_until(Duration limit, const std::function<bool()>& condition) {
    const TimePoint end = now_ + limit;
    while (now_ < end && !::testing::Test::HasFailure()) {
      if (condition()) {
        return true;
      }
      run(milliseconds(20));
    }
    return condition();
  }

  [[nodiscard]] RingNode& node(std::size_t index) { return *nodes_[index]->node; }
  [[nodiscard]] const std::string& identity(std::size_t index) { return nodes_[index]->identity; }
  [[nodiscard]] bool left(std::size_t index) { return nodes_[index]->left; }
  /// Might send a write for it right now.
  [[nodiscard]] bool acts(std::size_t index, PartitionId partition) {
    Worker& w = *nodes_[index];
    return w.alive && w.node->may_write(partition, w.node->member().epoch(partition), local(w));
  }
  [[nodiscard]] std::size_t count(std::size_t index) {
    std::size_t out = 0;
    for (std::size_t p = 0; p < kRingPartitions; ++p) {
      Worker& w = *nodes_[index];
      out += w.alive && w.node->may_start(static_cast<PartitionId>(p), local(w)) ? 1U : 0U;
    }
    return out;
  }
  /// Who may start steps of each partition; -1 nobody.
  [[nodiscard]] std::vector<int> owners() {
    std::vector<int> out(kRingPartitions, -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Worker& w = *nodes_[i];
      for (std::size_t p = 0; w.alive && p < kRingPartitions; ++p) {
        if (w.node->may_start(static_cast<PartitionId>(p), local(w))) {
          out[p] = static_cast<int>(i);
        }
      }
    }
    return out;
  }
  [[nodiscard]] bool settled() {
    const std::vector<int> all = owners();
    return std::find(all.begin(), all.end(), -1) == all.end();
  }
  [[nodiscard]] int coordinator() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Worker& w = *nodes_[i];
      if (w.alive && w.node->coordinator_lease().may_write(local(w))) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  [[nodiscard]] const std::string& ring_text() const { return ring_text_; }
  [[nodiscard]] RingTable table() const {
    return RingTable::parse(ring_text_).value_or(RingTable());
  }
  [[nodiscard]] const std::map<std::string, LeaseRecord>& leases() const { return leases_; }
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  [[nodiscard]] std::uint64_t ring_writes() const { return ring_writes_; }
  [[nodiscard]] std::uint64_t starts() const { return starts_; }
  [[nodiscard]] std::uint32_t highest_epoch(PartitionId partition) const {
    return epochs_[partition].first;
  }

 private:
  static constexpr std::size_t kWorld = static_cast<std::size_t>(-1);
  struct Worker {
    std::unique_ptr<RingNode> node;
    std::string identity;
    Duration offset{};
    double rate = 1;
    Duration wall{};
    bool alive = true;
    bool drains = true;
    bool left = false;
    bool wrote = false;  // the guard held at the last check
    TimePoint paused_until{}, cut_until{}, watch_until{}, watch_last{};
    std::uint64_t timer = 0;
    std::array<std::uint64_t, 3> op{};  // token of the op under way, by channel
  };
  struct Event {
    TimePoint when;
    std::uint64_t sequence = 0;
    std::size_t node = kWorld;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::pair(when, sequence) > std::pair(other.when, other.sequence);
    }
  };

  TimePoint local(const Worker& w) const {
    const auto passed = static_cast<double>(now_.time_since_epoch().count());
    return TimePoint(Duration(static_cast<std::int64_t>(passed * w.rate))) + w.offset;
  }
  bool chance(double share) {
    return share > 0 && std::uniform_real_distribution<>(0, 1)(random_) < share;
  }
  Duration up_to(Duration most) {
    return Duration(std::uniform_int_distribution<std::int64_t>(0, most.count())(random_));
  }
  Duration way() {
    Duration out = faults_.latency + up_to(faults_.jitter);
    return chance(faults_.slow) ? out + up_to(seconds(6)) : out;
  }
  void at(Duration delay, std::size_t node, std::function<void()> run) {
    queue_.push({now_ + delay, ++sequence_, node, std::move(run)});
  }
  void tell(const std::function<RingOutput(RingNode&, TimePoint)>& event) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Worker& w = *nodes_[i];
      // In order, at the earliest when it is connected again.
      w.watch_last = std::max({w.watch_last, w.watch_until, w.cut_until, now_ + way()});
      at(w.watch_last - now_, i,
         [this, i, event] { apply(i, event(*nodes_[i]->node, local(*nodes_[i]))); });
    }
  }
  std::string next_rv() { return "r" + std::to_string(++rv_); }
  void store_ring(std::string text) {
    ring_text_ = std::move(text);
    ring_rv_ = next_rv();
    ++ring_writes_;
    tell([rv = ring_rv_, all = ring_text_](RingNode& node, TimePoint when) {
      return node.on_ring_event(rv, all, when);
    });
  }

  RingAnswer serve(const RingOp& op, Duration wall) {
    RingAnswer out;
    out.kind = RingAnswer::Kind::kOk;
    const auto refuse = [&out](RingAnswer::Kind kind) {
      out.kind = kind;
      return out;
    };
    const auto found = leases_.find(op.name);
    switch (op.kind) {
      case RingOp::Kind::kGetLease:
        if (found == leases_.end()) {
          return refuse(RingAnswer::Kind::kMissing);
        }
        out.leases.push_back(found->second);
        return out;
      case RingOp::Kind::kListLeases:
        for (const auto& [name, lease] : leases_) {
          out.leases.push_back(lease);
        }
        return out;
      case RingOp::Kind::kDeleteLease:
        if (found == leases_.end()) {
          return refuse(RingAnswer::Kind::kMissing);
        }
        if (found->second.uid != op.uid || found->second.rv != op.rv) {
          return refuse(RingAnswer::Kind::kConflict);
        }
        delete_lease(op.name);
        return out;
      case RingOp::Kind::kCreateLease:
      case RingOp::Kind::kUpdateLease: {
        const bool create = op.kind == RingOp::Kind::kCreateLease;
        if (!create && found == leases_.end()) {
          return refuse(RingAnswer::Kind::kMissing);
        }
        if (create ? found != leases_.end()
                   : found->second.rv != op.lease.rv || found->second.uid != op.lease.uid) {
          return refuse(RingAnswer::Kind::kConflict);
        }
        krm::Json body =
            lease_body(op.lease, std::chrono::duration_cast<std::chrono::microseconds>(
                                     now_.time_since_epoch() + wall + std::chrono::hours(500'000))
                                     .count());
        body.make({"metadata", "uid"}) = create ? "u" + std::to_string(++uid_) : found->second.uid;
        body.make({"metadata", "resourceVersion"}) = next_rv();
        const Expected<LeaseRecord> stored = parse_lease(body);
        EXPECT_TRUE(stored);
        leases_[op.name] = *stored;
        ++writes_;
        tell([lease = *stored](RingNode& node, TimePoint when) {
          return node.on_lease_event(lease, when);
        });
        out.leases.push_back(*stored);
        return out;
      }
      case RingOp::Kind::kGetRing:
        if (ring_rv_.empty()) {
          return refuse(RingAnswer::Kind::kMissing);
        }
        break;
      case RingOp::Kind::kCreateRing:
      case RingOp::Kind::kUpdateRing: {
        const std::string_view rv = op.body.text({"metadata", "resourceVersion"});
        if (rv != ring_rv_) {
          return refuse(ring_rv_.empty() ? RingAnswer::Kind::kMissing
                                         : RingAnswer::Kind::kConflict);
        }
        store_ring(std::string(ring_text_of(op)));
        break;
      }
    }
    out.rv = ring_rv_;
    out.text = ring_text_;
    return out;
  }
  static std::string_view ring_text_of(const RingOp& op) {
    return kintsugi::workers::ring_text(op.body);
  }

  void answer(std::size_t index, RingOp::Channel channel, std::uint64_t token,
              const RingAnswer& what) {
    Worker& w = *nodes_[index];
    std::uint64_t& waiting = w.op[static_cast<std::size_t>(channel)];
    if (waiting == token) {
      waiting = 0;
      apply(index, w.node->on_answer(channel, what, local(w)));
    }
  }

  void send(std::size_t index, RingOp op) {
    Worker& w = *nodes_[index];
    const auto channel = static_cast<std::size_t>(op.channel);
    ASSERT_EQ(w.op[channel], 0U) << "two ops of one channel";
    const std::uint64_t token = ++sequence_;
    w.op[channel] = token;
    at(op.timeout, index, [this, index, token, to = op.channel] { answer(index, to, token, {}); });
    if (!w.node->may_send(op, local(w)) || chance(faults_.lose_request) || now_ < w.cut_until) {
      return;
    }
    at(way(), kWorld, [this, index, token, op = std::move(op)] {
      const RingAnswer what = serve(op, nodes_[index]->wall);
      if (chance(faults_.lose_answer) || now_ < nodes_[index]->cut_until) {
        return;
      }
      at(way(), index,
         [this, index, token, to = op.channel, what] { answer(index, to, token, what); });
    });
  }

  void apply(std::size_t index, RingOutput&& out) {
    Worker& w = *nodes_[index];
    bool changed = false;
    for (const RingEvent& event : out.events) {
      changed = true;
      if (event.kind == RingEvent::Kind::kDrain) {
        if (w.drains) {
          at(up_to(faults_.drain), index, [this, index, p = event.partition] {
            apply(index, nodes_[index]->node->on_drained(p, local(*nodes_[index])));
          });
        }
      } else if (event.kind != RingEvent::Kind::kStop) {
        starts_ += event.kind == RingEvent::Kind::kStart ? 1 : 0;
        auto& [highest, owner] = epochs_[event.partition];
        ASSERT_GE(event.epoch, highest)
            << "epoch of " << event.partition << " went back at " << index;
        ASSERT_TRUE(event.epoch > highest || owner == w.identity)
            << "partition " << event.partition << " has two members in epoch " << event.epoch;
        highest = event.epoch;
        owner = w.identity;
      }
    }
    w.left = w.left || out.left;
    const bool guard = w.node->member_lease().may_write(local(w));
    if (changed || (guard && !w.wrote)) {
      check();
    }
    w.wrote = guard;
    for (RingOp& op : out.ops) {
      send(index, std::move(op));
    }
    const std::uint64_t timer = ++w.timer;
    if (out.wake != TimePoint::max()) {
      const double wait = static_cast<double>((out.wake - local(w)).count()) / w.rate;
      at(std::max(Duration(static_cast<std::int64_t>(wait) + 1), Duration(1)), index,
         [this, index, timer] {
           Worker& mine = *nodes_[index];
           if (mine.timer == timer) {
             apply(index, mine.node->on_timer(local(mine)));
           }
         });
    }
  }

  void check() {
    std::vector<const Worker*> writers;
    for (const auto& w : nodes_) {
      if (w->alive && w->node->member_lease().may_write(local(*w)) && w->node->member().held()) {
        writers.push_back(w.get());
      }
    }
    for (std::size_t p = 0; writers.size() > 1 && p < kRingPartitions; ++p) {
      int acting = 0;
      for (const Worker* w : writers) {
        acting += w->node->member().holds(static_cast<PartitionId>(p)) ? 1 : 0;
      }
      ASSERT_LE(acting, 1) << "partition " << p << " is acted on by two";
    }
  }

  std::mt19937_64 random_;
  Faults faults_;
  TimePoint now_{seconds(1'000)};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<Worker>> nodes_;
  std::map<std::string, LeaseRecord> leases_;
  std::string ring_rv_;
  std::string ring_text_;
  std::uint64_t rv_ = 0;
  std::uint64_t uid_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t ring_writes_ = 0;
  std::uint64_t starts_ = 0;
  std::array<std::uint32_t, kRingPartitions> weights_{};
  std::array<std::pair<std::uint32_t, std::string>, kRingPartitions> epochs_{};
};

}  // namespace kintsugi::workers
