#include "proxy/console/internal/live_views.h"

#include <algorithm>
#include <utility>

#include "proxy/console/console_answer.h"

namespace kintsugi::proxy {

/// One who looks.
class LiveViews::Viewer final : public http::RequestHandler {
 public:
  Viewer(LiveViews& live, http::ResponseStream& stream, std::vector<std::string> names)
      : live_(&live), stream_(stream) {
    for (std::string& name : names) {
      views_.emplace_back(std::move(name), false);
    }
    live.viewers_.push_back(this);
  }
  ~Viewer() override { leave(); }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_drained() noexcept override { behind_ = false; }
  void on_close(Errc /*cause*/) noexcept override { leave(); }

  [[nodiscard]] bool has(std::string_view view) const {
    return std::any_of(views_.begin(), views_.end(),
                       [view](const auto& one) { return one.first == view; });
  }
  void tell(const std::map<std::string, View, std::less<>>& all, std::string_view tick) {
    if (!behind_ && stream_.unsent_bytes() > kMostBehind) {
      behind_ = true;
      for (auto& one : views_) {
        one.second = false;
      }
    }
    if (behind_) {
      return;
    }
    std::string lines;
    for (auto& [name, told] : views_) {
      const View& view = all.find(name)->second;
      lines += told ? view.news : view.changes.reset();
      told = true;
    }
    lines += tick;
    if (!lines.empty()) {
      stream_.send_data(lines, false);
    }
  }
  void end() {
    live_ = nullptr;
    stream_.send_data(std::string_view(), true);
  }

 private:
  void leave() {
    if (live_ != nullptr) {
      std::exchange(live_, nullptr)->leave(*this);
    }
  }
  LiveViews* live_;
  http::ResponseStream& stream_;
  std::vector<std::pair<std::string, bool>> views_;  ///< and whether it was told of it
  bool behind_ = false;
};

LiveViews::LiveViews(const AdminParams& admin, Rates& rates, const TimePoint& started)
    : admin_(admin), rates_(rates), started_(started), timer_(admin.loop) {
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
                                                      std::string_view views) {
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
  if (viewers_.size() >= kMostViewers) {
    return console_error(head, stream, 429, "20 look already");
  }
  stream.send_head(200, console_headers("application/x-ndjson", "no-store"), false);
  auto viewer = std::make_unique<Viewer>(*this, stream, std::move(names));
  if (following_ == nullptr && admin_.follow) {
    following_ = admin_.follow([this] { objects_changed_ = true; });
  }
  if (!looking_) {
    timer_.start(Duration::zero(), [this] { look(); });
  }
  return viewer;
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
  admin_.collect(wants("streams") ? ReportPart::kWatches : ReportPart::kFigures,
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

void LiveViews::on_reports(const std::vector<LoopReport>& loops) {
  looking_ = false;
  const TopologyReport topology = admin_.topology();
  const TimePoint now = Clock::now();
  rates_.take(loops, now);
  const ViewSources sources{admin_, loops, topology, rates_, now, started_};
  const std::uint64_t mark = topology_mark();
  const bool other = std::exchange(objects_changed_, false) || mark != std::exchange(mark_, mark);
  for (auto& [name, view] : views_) {
    view.news.clear();
    if (!wants(name)) {
      view.made = false;
    } else if (!view.made || other || !is_of_objects(name)) {
      view.news = view.changes.take(rows_of(name, sources));
      view.made = true;
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
