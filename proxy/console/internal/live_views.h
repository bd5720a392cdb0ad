#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/console/internal/view_changes.h"
#include "proxy/console/internal/view_rows.h"
#include "proxy/console/internal/viewer_scope.h"

namespace kintsugi::proxy {

/// `live?views=` (OP-705): what changes in views, to everybody who looks. All share one picture,
/// which is made every 250 ms, and not at all while nobody looks. Threads: the control loop's.
class LiveViews {
 public:
  /// Of these at most so many who come by the main port, and of one user.
  static constexpr std::size_t kMostViewers = 20, kMostByMainPort = 16, kMostOfUser = 4;
  /// One that has not taken so much is told nothing until it has; then everything anew [bytes].
  static constexpr std::size_t kMostBehind = 1U << 20;
  static constexpr Duration kBetween = milliseconds(250), kTick = seconds(5);

  /// All of them must outlive it.
  LiveViews(const AdminParams& admin, Rates& rates, Timeline& timeline, const TimePoint& started);
  ~LiveViews();
  /// @param views  names of kViews with commas between them, "": all
  /// @param scope  who looks: of what he sees in part he is told apart from the others
  [[nodiscard]] std::unique_ptr<http::RequestHandler> open(const http::RequestHead& head,
                                                           http::ResponseStream& stream,
                                                           std::string_view views,
                                                           const ViewerScope& scope);

 private:
  class Viewer;
  struct View {
    ViewChanges changes;
    std::string news;   ///< of the picture that was made last
    bool made = false;  ///< it shows a picture
  };
  void look();
  void on_reports(const std::vector<LoopReport>& loops);
  [[nodiscard]] bool wants(std::string_view view) const;
  [[nodiscard]] bool has_room(const ViewerScope& scope) const;
  [[nodiscard]] std::uint64_t topology_mark() const;
  /// A view that is shown may show something else by now.
  [[nodiscard]] bool is_old(std::string_view view, bool objects_changed, bool events_came) const;
  void leave(Viewer& viewer);

  const AdminParams& admin_;
  Rates& rates_;
  Timeline& timeline_;
  const TimePoint& started_;
  std::vector<Viewer*> viewers_;
  std::map<std::string, View, std::less<>> views_;
  std::shared_ptr<void> following_;  ///< while somebody looks
  bool objects_changed_ = true, looking_ = false;
  std::uint64_t mark_ = 0;    ///< of the topology that object views were made of
  std::uint64_t events_ = 0;  ///< version of the timeline that was shown
  TimePoint ticked_{};
  net::Timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kintsugi::proxy
