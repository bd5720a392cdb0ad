#pragma once

#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/watch/internal/client_feed.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/merged_watch_fsm.h"
#include "aggregation/watch/internal/watch_parts.h"
#include "aggregation/watch/watch_group.h"
#include "base/error.h"
#include "http/handler.h"

namespace kintsugi::aggregation {

/// Takes what comes by one client's own streams: events go to its feed, positions to its parts, and
/// a stream that has got where the log begins gives way to the group's. Lifetime: that of what it
/// is made with at most. Threads: the group's loop.
class OwnStreams final : public MemberWatch::Sink {
 public:
  /// The client. All may stop its watch.
  class Client {
   public:
    /// A shard has accepted, or lacks the resource.
    virtual void on_own_accepted() = 0;
    /// A batch is through, and given to the feed.
    virtual void on_own_batch() = 0;
    /// All present objects of a shard were given to the feed.
    virtual void on_own_initial_end() = 0;
    /// True: try again.
    virtual bool on_own_lost(const MemberWatch& from, std::string_view cause) = 0;
    virtual void on_own_refused(const std::string& shard, const http::ResponseHead& head,
                                const std::string& body) = 0;
    /// The client has to list again, at once if the shard has `forgotten` what it asks for; else
    /// its objects have moved between shards.
    virtual void on_own_expired(bool forgotten) = 0;
    virtual void on_own_failed(const Error& error, std::string_view reason) = 0;
    /// One of these has thrown.
    virtual void on_own_fault() = 0;

   protected:
    ~Client() = default;
  };

  /// @param audit  for logs
  OwnStreams(Client& client, Asking& asking, WatchGroup& group, MergedWatchFsm& fsm,
             WatchParts& parts, ClientFeed& feed, const std::string& audit) noexcept
      : client_(client),
        asking_(asking),
        group_(group),
        fsm_(fsm),
        parts_(parts),
        feed_(feed),
        audit_(audit) {}

  void on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) override;
  void on_bookmark(MemberWatch& from, const EventFacts& facts) override;
  void on_initial_end(MemberWatch& from) override;
  void on_accepted(MemberWatch& from) override;
  void on_batch_end(MemberWatch& from) override;
  bool on_lost(MemberWatch& from, std::string_view cause) override {
    return client_.on_own_lost(from, cause);
  }
  void on_expired(MemberWatch&) override { client_.on_own_expired(true); }
  void on_refused(MemberWatch& from, const http::ResponseHead& head,
                  const std::string& body) override {
    client_.on_own_refused(from.member().name, head, body);
  }
  void on_too_large(MemberWatch& from, const std::string& key) override;
  void on_fault(MemberWatch& from) override;

 private:
  /// An event is for the client, which may instead have to list again.
  [[nodiscard]] bool takes(const MemberWatch& from, const EventFacts& event);
  void flush();
  /// A live stream gives way to the group's, or becomes it.
  void try_join(WatchPart& part);

  Client& client_;
  Asking& asking_;
  WatchGroup& group_;
  MergedWatchFsm& fsm_;
  WatchParts& parts_;
  ClientFeed& feed_;
  const std::string& audit_;
};

}  // namespace kintsugi::aggregation
