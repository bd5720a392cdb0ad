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

namespace kintsugi::proxy {

/// `live?views=` (OP-705): what changes in views, to everybody who looks. All share one picture,
/// which is made every 250 ms, and not at all while nobody looks. Threads: the control loop's.
class LiveViews {
 public:
  static constexpr std::size_t kMostViewers = 20;
  /// One that has not taken so much is told nothing until it has; then everything anew [bytes].
  static constexpr std::size_t kMostBehind = 1U << 20;
  static constexpr Duration kBetween = milliseconds(250), kTick = seconds(5);

  /// All three must outlive it.
  LiveViews(const AdminParams& admin, Rates& rates, const TimePoint& started);
  ~LiveViews();
  /// @param views  names of kViews with commas between them, "": all
  [[nodiscard]] std::unique_ptr<http::RequestHandler> open(const http::RequestHead& head,
                                                           http::ResponseStream& stream,
                                                           std::string_view views);

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
  [[nodiscard]] std::uint64_t topology_mark() const;
  void leave(Viewer& viewer);

  const AdminParams& admin_;
  Rates& rates_;
  const TimePoint& started_;
  std::vector<Viewer*> viewers_;
  std::map<std::string, View, std::less<>> views_;
  std::shared_ptr<void> following_;  ///< while somebody looks
  bool objects_changed_ = true, looking_ = false;
  std::uint64_t mark_ = 0;  ///< of the topology that object views were made of
  TimePoint ticked_{};
  net::Timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kintsugi::proxy
