#include "shards/informer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "shards/answer_log.h"
#include "shards/internal/page_scan.h"

namespace kintsugi::shards {
namespace {

constexpr Duration kHeadTimeout = seconds(30);
constexpr Duration kPageTimeout = seconds(60);
constexpr Duration kRefusalTimeout = seconds(2);  // for what a server says about one
constexpr std::size_t kMostRefusal = 4'096;
constexpr int kGone = 410;

int retry_after(const http::HeaderList& headers) {
  return parse_decimal<int>(headers.get("retry-after")).value_or(0);
}

/// Some of the answer's warnings says that a shard is missing.
bool is_partial(const http::HeaderList& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name == "warning" && names_missing_shard(headers[i].value)) {
      return true;
    }
  }
  return false;
}

/// What was asked for, and how it was answered; a watch that broke was not.
void log(const net::Loop& loop, const net::Upstream& upstream, std::string_view target, int status,
         TimePoint begun) {
  log_answer(upstream.params().url.authority(), "GET", target, status, loop.now() - begun);
}

}  // namespace

Informer::Informer(net::Loop& loop, InformerParams params, http::HeaderList headers,
                   InformerSink& sink)
    : loop_(loop), fsm_(std::move(params), sink), headers_(std::move(headers)), timer_(loop) {
  headers_.set("accept", "application/json");
}

Informer::~Informer() { ++*turn_; }

void Informer::start(net::Upstream& upstream) {
  upstream_ = &upstream;
  perform(fsm_.start(loop_.now()));
}

void Informer::set_upstream(net::Upstream& upstream) {
  cancel();
  upstream_ = &upstream;
  perform(fsm_.relist({}, loop_.now()));
}

void Informer::move(net::Upstream& upstream, const std::string& target) {
  cancel();
  upstream_ = &upstream;
  perform(fsm_.relist(target, loop_.now()));
}

void Informer::set_target(const std::string& target) { perform(fsm_.relist(target, loop_.now())); }

void Informer::kick() { perform(fsm_.kick(loop_.now())); }

void Informer::stop() { perform(fsm_.stop()); }

void Informer::cancel() {
  ++*turn_;
  timer_.cancel();
  refusal_.reset();
  if (call_ != nullptr) {
    // May run inside a callback of this very call, so it dies at the end of the turn.
    loop_.defer([dead = std::shared_ptr<net::Call>(std::move(call_))] { (void)dead; });
  }
}

void Informer::perform(InformerFsm::Action action) {
  using Kind = InformerFsm::Action::Kind;
  if (action.kind == Kind::kNone) {
    return;
  }
  cancel();
  switch (action.kind) {
    case Kind::kNone:
    case Kind::kCancel:
      return;
    case Kind::kWatch:
      return open_watch(std::move(action.target));
    case Kind::kList:
      return fetch_page(std::move(action.target));
    case Kind::kRest:
      return timer_.start(action.wait, [this] { perform(fsm_.on_timer(loop_.now())); });
  }
}

/// Comes back when a watch may have been silent for too long.
void Informer::watch_over() {
  const TimePoint at = fsm_.deadline();
  if (at == TimePoint::max()) {
    return;
  }
  timer_.start(std::max(at - loop_.now(), Duration::zero()), [this] {
    auto next = fsm_.on_timer(loop_.now());
    if (next.kind == InformerFsm::Action::Kind::kNone) {
      return watch_over();
    }
    perform(std::move(next));
  });
}

/// A stream that was reset, told from a connection that broke.
Errc Informer::cause_of(Errc end) const noexcept {
  const bool lost = upstream_->stats(net::UpstreamClass::kWatch).connections < connections_;
  return end == Errc::kReset && lost ? Errc::kClosed : end;
}

net::FetchRequest Informer::request(std::string target, net::UpstreamClass kind) const {
  net::FetchRequest request;
  request.target = std::move(target);
  request.headers = headers_;
  request.kind = kind;
  request.timeout = kind == net::UpstreamClass::kWatch ? kHeadTimeout : kPageTimeout;
  return request;
}

void Informer::open_watch(std::string target) {
  asked_ = target;
  const auto current = [token = turn_, turn = *turn_] { return *token == turn; };
  net::StreamCallbacks callbacks;
  callbacks.on_head = [this, current, begun = loop_.now()](const http::ResponseHead& head) {
    if (!current()) {
      return;
    }
    log(loop_, *upstream_, asked_, head.status, begun);
    if (head.status >= 400 && heard_) {
      refusal_ = Refusal{head.status, retry_after(head.headers), {}};
      timer_.start(kRefusalTimeout, [this] { take_refusal(); });
      return;
    }
    connections_ = upstream_->stats(net::UpstreamClass::kWatch).connections;
    auto next =
        fsm_.on_head(head.status, retry_after(head.headers), loop_.now(), is_partial(head.headers));
    tell(next, head.status, {});
    if (next.kind == InformerFsm::Action::Kind::kNone) {
      return watch_over();
    }
    perform(std::move(next));
  };
  callbacks.on_data = [this, current](std::string_view bytes) {
    if (current() && refusal_) {
      refusal_->body.append(bytes.substr(0, kMostRefusal - refusal_->body.size()));
    } else if (current()) {
      perform(fsm_.on_data(bytes, loop_.now()));
    }
  };
  callbacks.on_end = [this, current, begun = loop_.now()](Errc cause) {
    if (current() && refusal_) {
      take_refusal();
    } else if (current()) {
      if (cause != Errc::kOk) {
        log(loop_, *upstream_, asked_, 0, begun);
      }
      perform(fsm_.on_end(fsm_.reflects() ? cause_of(cause) : cause, loop_.now()));
    }
  };
  call_ = net::stream(loop_, *upstream_, request(std::move(target), net::UpstreamClass::kWatch),
                      std::move(callbacks));
}

void Informer::fetch_page(std::string target) {
  asked_ = target;
  const auto current = [token = turn_, turn = *turn_] { return *token == turn; };
  call_ = net::fetch(loop_, *upstream_, request(std::move(target), net::UpstreamClass::kRead),
                     [this, current, begun = loop_.now()](Expected<net::FetchResponse> answer) {
                       if (!current()) {
                         return;
                       }
                       log(loop_, *upstream_, asked_, answer ? answer->status : 0, begun);
                       if (!answer) {
                         return perform(fsm_.on_page_failed(answer.error().code(), loop_.now()));
                       }
                       auto next =
                           fsm_.on_page(answer->status, retry_after(answer->headers), answer->body,
                                        loop_.now(), is_partial(answer->headers));
                       std::string_view said;
                       if (answer->status >= 400) {
                         said = std::string_view(answer->body).substr(0, kMostRefusal);
                       }
                       tell(next, answer->status, said);
                       perform(std::move(next));
                     });
}

void Informer::take_refusal() {
  const Refusal refusal = *std::exchange(refusal_, std::nullopt);
  auto next = fsm_.on_head(refusal.status, refusal.retry_after, loop_.now());
  tell(next, refusal.status, refusal.body);
  perform(std::move(next));
}

void Informer::tell(const InformerFsm::Action& next, int status, std::string_view body) {
  const bool goes_on = next.kind != InformerFsm::Action::Kind::kRest || status == kGone;
  if (heard_ && (status < 400 || !goes_on)) {
    heard_(asked_, status, body);
  }
}

}  // namespace kintsugi::shards
