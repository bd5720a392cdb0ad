#include "proxy/console/internal/live_views.h"

#include <algorithm>
#include <utility>

#include "proxy/console/console_answer.h"

namespace kintsugi::proxy {

/// One who looks.
class LiveViews::Viewer final : public http::RequestHandler {
 public:
  Viewer(LiveViews& live, http::ResponseStream& stream, const std::vector<std::string>& names,
         ViewerScope scope)
      : live_(&live), stream_(stream), scope_(std::move(scope)) {
    for (const std::string& name : names) {
      Told told{name, false, nullptr, {}};
      if (scope_.sight(name) != Sight::kAll) {
        told.part = std::make_unique<ViewChanges>(name);
      }
      views_.push_back(std::move(told));
    }
    live.viewers_.push_back(this);
  }
  ~Viewer() override { leave(); }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_drained() noexcept override { behind_ = false; }
  void on_close(Errc /*cause*/) noexcept override { leave(); }

  [[nodiscard]] const ViewerScope& scope() const noexcept { return scope_; }
  [[nodiscard]] bool has(std::string_view view) const {
    return std::any_of(views_.begin(), views_.end(),
                       [view](const Told& one) { return one.name == view; });
  }
  /// A new picture of a view. Of what he sees in part he has a picture of his own.
  void take(std::string_view view, const ViewRows& rows) {
    for (Told& one : views_) {
      if (one.name == view && one.part != nullptr) {
        one.news = one.part->take(part_of(view, rows, scope_));
      }
    }
  }
  void tell(const std::map<std::string, View, std::less<>>& all, std::string_view tick) {
    if (!behind_ && stream_.unsent_bytes() > kMostBehind) {
      behind_ = true;
      for (Told& one : views_) {
        one.told = false;
      }
    }
    std::string lines;
    for (Told& one : views_) {
      const View& view = all.find(one.name)->second;
      const ViewChanges& changes = one.part != nullptr ? *one.part : view.changes;
      const std::string news =
          one.part != nullptr ? std::exchange(one.news, {}) : std::string(view.news);
      if (!behind_) {
        lines += one.told ? news : changes.reset();
        one.told = true;
      }
    }
    if (!behind_) {
      lines += tick;
    }
    if (!lines.empty()) {
      stream_.send_data(lines, false);
    }
  }
  void end() {
    live_ = nullptr;
    stream_.send_data(std::string_view(), true);
  }

 private:
  struct Told {
    std::string name;
    bool told;  ///< its `reset` is out
    std::unique_ptr<ViewChanges> part;
    std::string news;  ///< of `part`
  };
  void leave() {
    if (live_ != nullptr) {
      std::exchange(live_, nullptr)->leave(*this);
    }
  }
  LiveViews* live_;
  http::ResponseStream& stream_;
  const ViewerScope scope_;
  std::vector<Told> views_;
  bool behind_ = false;
};

LiveViews::LiveViews(const AdminParams& admin, Rates& rates, Timeline& timeline,
                     const TimePoint& started)
    : admin_(admin), rates_(rates), timeline_(timeline), started_(started), timer_(admin.loop) {
  for (const std::string_view view : kViews) {
    views_.emplace(view, View{ViewChanges(view), {}});
  }
}

LiveViews::~LiveViews() {
  *alive_ = false;
  for (Viewer* const viewer : viewers_) {
    viewer->end();
  }
}

std::unique_ptr<http::RequestHandler> LiveViews::open(const http::RequestHead& head,
                                                      http::ResponseStream& stream,
                                                      std::string_view views,
                                                      const ViewerScope& scope) {
  std::vector<std::string> names;
  while (!views.empty()) {
    const std::string_view name = views.substr(0, views.find(','));
    views.remove_prefix(std::min(views.size(), name.size() + 1));
    if (!is_view(name)) {
      return console_error(head, stream, 400, "views: names of views with commas between them");
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.emplace_back(name);
    }
  }
  if (names.empty()) {
    names.assign(std::begin(kViews), std::end(kViews));
  }
  if (std::any_of(names.begin(), names.end(), [&scope](const std::string& name) {
        return scope.sight(name) == Sight::kNothing;
      })) {
    return console_error(head, stream, 403, "one of the views is not for you to see");
  }
  if (!has_room(scope)) {
    return console_error(head, stream, 429, "too many look already");
  }
  stream.send_head(200, console_headers("application/x-ndjson", "no-store"), false);
  auto viewer = std::make_unique<Viewer>(*this, stream, names, scope);
  for (const std::string& name : names) {
    if (scope.sight(name) != Sight::kAll) {
      views_.find(name)->second.made = false;  // rows for him
    }
  }
  if (following_ == nullptr && admin_.follow) {
    following_ = admin_.follow([this] { objects_changed_ = true; });
  }
  if (!looking_) {
    timer_.start(Duration::zero(), [this] { look(); });
  }
  return viewer;
}

bool LiveViews::has_room(const ViewerScope& scope) const {
  std::size_t of_port = 0, of_user = 0;
  for (const Viewer* const one : viewers_) {
    of_port += one->scope().is_administrator ? 0U : 1U;
    of_user += !one->scope().is_administrator && one->scope().user == scope.user ? 1U : 0U;
  }
  return viewers_.size() < kMostViewers &&
         (scope.is_administrator || (of_port < kMostByMainPort && of_user < kMostOfUser));
}

bool LiveViews::wants(std::string_view view) const {
  return std::any_of(viewers_.begin(), viewers_.end(),
                     [view](const Viewer* viewer) { return viewer->has(view); });
}

void LiveViews::look() {
  if (viewers_.empty()) {
    return;
  }
  looking_ = true;
  admin_.collect(
      wants("streams") || wants("overview") ? ReportPart::kWatches : ReportPart::kFigures,
      [this, alive = alive_](const std::vector<LoopReport>& loops) {
        if (*alive) {
          on_reports(loops);
        }
      });
}

std::uint64_t LiveViews::topology_mark() const {
  std::uint64_t mark = admin_.feed.stats().changes;
  for (const auto& shard : admin_.feed.index().shards()) {
    mark = mark * 31 + shard->id * 64U + shard->synced * 2U + (shard->up ? 1U : 0U);
  }
  return mark;
}

bool LiveViews::is_old(std::string_view view, bool objects_changed, bool events_came) const {
  return is_of_objects(view) ? objects_changed : view != "events" || events_came;
}

void LiveViews::on_reports(const std::vector<LoopReport>& loops) {
  looking_ = false;
  const TopologyReport topology = admin_.topology();
  const TimePoint now = Clock::now();
  rates_.take(loops, now);
  timeline_.take(timeline_sample(admin_.feed, loops, topology), unix_microseconds());
  const ViewSources sources{admin_, loops, topology, rates_, timeline_, now, started_};
  const std::uint64_t mark = topology_mark();
  const bool other = std::exchange(objects_changed_, false) || mark != std::exchange(mark_, mark);
  const bool events_came = timeline_.version() != std::exchange(events_, timeline_.version());
  for (auto& [name, view] : views_) {
    view.news.clear();
    if (!wants(name)) {
      view.made = false;
    } else if (!view.made || is_old(name, other, events_came)) {
      const ViewRows rows = rows_of(name, sources);
      view.news = view.changes.take(rows);
      view.made = true;
      for (Viewer* const viewer : viewers_) {
        viewer->take(name, rows);
      }
    }
  }
  std::string tick;
  if (now - ticked_ >= kTick) {
    ticked_ = now;
    tick = tick_line(rfc3339_micro(unix_microseconds()));
  }
  for (Viewer* const viewer : viewers_) {
    viewer->tell(views_, tick);
  }
  timer_.start(kBetween, [this] { look(); });
}

void LiveViews::leave(Viewer& viewer) {
  std::erase(viewers_, &viewer);
  if (viewers_.empty()) {
    following_.reset();
    objects_changed_ = true;
    if (!looking_) {
      timer_.cancel();
    }
  }
}

}  // namespace kintsugi::proxy
