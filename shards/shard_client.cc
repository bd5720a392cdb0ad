#include "shards/shard_client.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/upstream_peer.h"
#include "shards/internal/fault_log.h"

namespace kintsugi::shards {
namespace {

constexpr Duration kSweep = milliseconds(250);
/// Of what runs at a process that has left the others: it ends that in order, or it hangs.
constexpr Duration kLeft = seconds(10);
constexpr net::UpstreamClass kClasses[] = {net::UpstreamClass::kWatch, net::UpstreamClass::kRead,
                                           net::UpstreamClass::kWrite};

bool has_streams(const net::Upstream& upstream) {
  return std::any_of(std::begin(kClasses), std::end(kClasses), [&](net::UpstreamClass kind) {
    const net::UpstreamStats stats = upstream.stats(kind);
    return stats.streams != 0 || stats.queued != 0;
  });
}

/// Whether the log gets a line, for all clients of that server.
bool told(const std::string& name, const std::string& url, FaultLog::State state, TimePoint now) {
  return FaultLog::of_process().note(name + " " + url, state, now);
}

}  // namespace

void for_nobody(http::HeaderList& headers) {
  headers.add("x-remote-user", "system:anonymous");
  headers.add("x-remote-group", "system:unauthenticated");
}

ShardClient::ShardClient(net::Loop& loop, ShardClientParams params, std::function<void()> on_health)
    : loop_(loop),
      params_(std::move(params)),
      on_health_(std::move(on_health)),
      probe_timer_(loop),
      sweep_timer_(loop) {}

ShardClient::~ShardClient() { *self_ = nullptr; }

Expected<void> ShardClient::set_base_url(const std::string& url) {
  if (url == base_url_ && upstream_ != nullptr) {
    return {};
  }
  return move_to(url);
}

Expected<void> ShardClient::move_to(const std::string& url) {
  probe_.reset();
  probe_status_ = 0;
  probe_timer_.cancel();
  base_url_ = url;
  others_.clear();
  if (upstream_ != nullptr) {
    retire(std::move(upstream_));
  }
  auto made = place(url);
  if (!made) {
    cause_ = made.error().to_string();
    return fail(std::move(made.error()));
  }
  upstream_ = std::make_unique<SpreadUpstream>(loop_, std::move(*made), params_.headers);
  cause_.clear();
  if (params_.probe) {
    schedule_probe({});
  }
  return {};
}

Expected<bool> ShardClient::set_urls(const std::string& url,
                                     const std::vector<std::string>& others) {
  const bool stays = upstream_ != nullptr && upstream_->has(url);
  if (stays) {
    upstream_->put_first(url);
    base_url_ = url;
  } else if (auto moved = move_to(url); !moved) {
    others_ = others;
    return fail(std::move(moved.error()));
  }
  others_ = others;
  for (const std::string& other : others) {
    if (upstream_->has(other)) {
      continue;
    }
    if (auto made = place(other);
        made && made->upstream->params().url.path == upstream_->params().url.path) {
      upstream_->add(std::move(*made));
    } else {
      log_warn("a process of a shard is not used", {{"shard", params_.name}, {"url", other}});
    }
  }
  for (std::unique_ptr<net::Upstream>& gone : upstream_->keep(others)) {
    retire(std::move(gone));
    retired_.back().deadline = loop_.now() + std::min(params_.drain_limit, kLeft);
  }
  return !stays;
}

Expected<SpreadUpstream::Place> ShardClient::place(const std::string& url) {
  auto upstream = params_.upstream(url);
  if (!upstream) {
    return fail(std::move(upstream.error()));
  }
  upstream->restart_window = HealthFsm::kRestart;
  upstream->on_recovered = [this, url] {
    if (upstream_ != nullptr && upstream_->has(url)) {
      upstream_->ask_soon();
      on_success();
    }
  };
  SpreadUpstream::Place out{url, net::Upstream::make(loop_, std::move(*upstream))};
  net::name_peer(*out.upstream, params_.name);
  return out;
}

/// Until its last stream ends.
void ShardClient::retire(std::unique_ptr<net::Upstream> upstream) {
  retired_.push_back({std::move(upstream), loop_.now() + params_.drain_limit});
  sweep_timer_.start(kSweep, [this] { sweep(); });
}

void ShardClient::sweep() {
  const TimePoint now = loop_.now();
  const auto gone = std::remove_if(retired_.begin(), retired_.end(), [&](const Retired& old) {
    return now >= old.deadline || !has_streams(*old.upstream);
  });
  retired_.erase(gone, retired_.end());
  if (!retired_.empty()) {
    sweep_timer_.start(kSweep, [this] { sweep(); });
  }
}

void ShardClient::schedule_probe(Duration delay) {
  probe_timer_.start(delay, [this] { send_probe(); });
}

void ShardClient::send_probe() {
  net::FetchRequest request;
  request.target = "/livez";
  request.headers = params_.headers;
  request.timeout = params_.probe_timeout;
  probe_ = net::fetch(
      loop_, *upstream_, std::move(request), [this](Expected<net::FetchResponse> answer) {
        probe_status_ = answer ? answer->status : 0;
        on_probe(answer.has_value(),
                 answer ? std::string_view() : errc_name(answer.error().code()));
        schedule_probe(health_.up() ? params_.probe_every
                                    : std::min<Duration>(params_.probe_every, HealthFsm::kTrial));
      });
}

void ShardClient::on_probe(bool answered, std::string_view cause) {
  if (answered) {
    answered_at_ = loop_.now();
    if (!std::exchange(cause_, {}).empty()) {
      tell_up();
    }
  } else {
    cause_ = cause;
    note_failure();
  }
  apply(health_.on_probe(answered, loop_.now()));
}

void ShardClient::on_verdict(bool up, std::string_view cause) {
  cause_ = up ? std::string_view() : cause;
  if (up && upstream_ != nullptr) {
    upstream_->retry_now();
  }
  apply(health_.on_verdict(up, loop_.now()));
}

void ShardClient::set_tls(std::shared_ptr<net::TlsContext> tls) {
  if (upstream_ != nullptr) {
    upstream_->set_tls(std::move(tls));
  }
}

std::int64_t ShardClient::certificate_end() const noexcept {
  return upstream_ != nullptr ? net::peer_certificate_end(upstream_->first()) : 0;
}

void ShardClient::on_success() {
  answered_at_ = loop_.now();
  if (!cause_.empty()) {
    cause_.clear();
    tell_up();
  }
  apply(health_.on_success(loop_.now()));
}

void ShardClient::on_failure(Errc cause) {
  if (answers_elsewhere()) {
    return;  // the shard is there
  }
  cause_ = errc_name(cause);
  note_failure();
  apply(health_.on_failure(loop_.now()));
}

void ShardClient::tell_up() {
  if (told(params_.name, base_url_, FaultLog::State::kUp, loop_.now())) {
    log_info("shard is up", {{"shard", params_.name}});
  }
}

void ShardClient::note_failure() {
  const TimePoint now = loop_.now();
  const bool first = failed_at_ <= answered_at_;
  failed_at_ = now;
  if (first && health_.up() && told(params_.name, base_url_, FaultLog::State::kSilent, now)) {
    log_warn("a shard does not answer", {{"shard", params_.name}, {"errc", cause_}});
  }
}

void ShardClient::apply(HealthFsm::Change change) {
  if (change == HealthFsm::Change::kNone) {
    return;
  }
  if (change == HealthFsm::Change::kUp) {
    tell_up();
  } else if (told(params_.name, base_url_, FaultLog::State::kDown, loop_.now())) {
    log_warn("shard is down", {{"shard", params_.name}, {"errc", cause_}});
  }
  if (on_health_) {
    on_health_();
  }
}

}  // namespace kintsugi::shards
