#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/internal/converted_events.h"
#include "apiserver/internal/live_event.h"
#include "apiserver/internal/request.h"
#include "apiserver/internal/watch_hub.h"
#include "apiserver/internal/watch_review.h"
#include "http/web_socket.h"
#include "net/loop.h"
#include "serving/watch_list.h"

namespace kintsugi::apiserver::internal {

/// One watch stream: present state if asked for, then history, then live events, until its deadline
/// (AM-285 to AM-315). Size: below 400 bytes when idle. Threads: its loop.
class Watcher final : public Producer {
 public:
  struct Params {
    WatchEncodingPtr encoding;
    SelectionPtr selection;
    std::string range;                          ///< key prefix, or one whole key
    bool one_key = false;                       ///< `range` is a whole key
    std::string cluster;                        ///< as asked for, "*" for all
    std::shared_ptr<const WatchRights> rights;  ///< its own
    bool from_state = false;                    ///< begin with the present objects as ADDED
    bool initial_end = false;                   ///< mark the end of the present objects (WatchList)
    bool bookmarks = false;
    bool web_socket = false;    ///< events go out as frames
    store::Revision after = 0;  ///< without from_state: events after this one
    Duration lifetime{};
    Duration bookmark_interval = Duration::max();  ///< if that of the server is longer
  };
  Watcher(Exchange& exchange, Server& server, Params params);
  ~Watcher() override;

  /// After the head was sent.
  void start() noexcept;
  void on_drained() noexcept override;
  void on_data(std::string_view bytes, bool end) noexcept override;
  /// From the hub.
  void deliver(LiveEvent& event) noexcept;
  /// One ERROR event, then the end of the stream.
  void fail_with(const Error& error) noexcept;
  /// A last bookmark if it is wanted and true, then the end of the stream.
  void end_in_order() noexcept;

  /// What waits is dropped.
  void end_at_once() noexcept;
  /// Who pays for it.
  [[nodiscard]] std::string payer() const;
  [[nodiscard]] TimePoint begun() const noexcept { return begun_; }
  /// Fills everything but age and queue.
  void describe(serving::WatchRow& row) const;

  [[nodiscard]] const ResourceDef& def() const noexcept { return *encoding_->kind()->def; }
  [[nodiscard]] const std::string& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const std::string& version() const noexcept {
    return encoding_->kind()->version->name;
  }
  [[nodiscard]] const std::shared_ptr<const WatchRights>& rights() const noexcept {
    return rights_;
  }
  /// Who asked is not proven any more, and it goes on.
  [[nodiscard]] bool is_unproven() const noexcept {
    return phase_ != Phase::kEnded && rights_->proof != nullptr && rights_->proof->ended;
  }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept;
  [[nodiscard]] bool has_ended() const noexcept { return phase_ == Phase::kEnded; }
  /// Place in the server's list.
  [[nodiscard]] std::size_t server_slot() const noexcept { return server_slot_; }
  void set_server_slot(std::size_t slot) noexcept { server_slot_ = slot; }

 private:
  enum class Phase : std::uint8_t { kState, kHistory, kLive, kEnded };

  void go_on() noexcept;
  bool read_state();
  bool read_history();
  void go_live();
  void fall_behind() noexcept;
  void yield();
  void send(const SharedBytes& bytes, bool is_event) noexcept;
  /// Sends, or keeps it in order behind what the webhook converts.
  void emit(const SharedBytes& bytes, bool is_event) noexcept;
  /// True when the event waits for the webhook now.
  bool convert(WatchType type, std::string_view value, store::Revision revision);
  void send_bookmark(store::Revision revision, bool initial_end) noexcept;
  [[nodiscard]] bool is_news() const;
  void put(const SharedBytes& bytes) noexcept;
  void put_frame(const std::string& frame) noexcept;
  void end() noexcept { end_with(http::kWebSocketNormal); }
  void end_with(std::uint16_t close_code) noexcept;
  void linger();
  void arm_timer();
  void on_timer();

  Exchange& exchange_;
  Server& server_;
  WatchEncodingPtr encoding_;
  SelectionPtr selection_;
  WatchHub::Group* group_ = nullptr;
  std::string range_;
  std::string cluster_;
  std::shared_ptr<const WatchRights> rights_;
  std::string next_;              ///< kState: first key to come
  store::Revision revision_ = 0;  ///< everything up to it was sent, or is not wanted
  store::Revision seen_ = 0;      ///< kLive: of the last event that came
  TimePoint begun_;
  std::uint64_t sent_ = 0;  ///< bytes passed on to the connection
  TimePoint deadline_;
  Duration bookmark_interval_;
  TimePoint next_bookmark_;
  TimePoint behind_until_ = TimePoint::max();  ///< by then it has to be live again
  net::Timer timer_;
  std::unique_ptr<ConvertedEvents> converted_;     ///< kinds with a conversion webhook only
  std::unique_ptr<http::WebSocketReader> socket_;  ///< null: plain HTTP
  std::shared_ptr<char> alive_;
  std::size_t server_slot_ = 0;
  Phase phase_ = Phase::kState;
  bool one_key_;
  bool bookmarks_;
  bool initial_end_;
  bool columns_sent_ = false;
};

}  // namespace kintsugi::apiserver::internal
