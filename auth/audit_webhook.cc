#include "auth/audit_webhook.h"

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include "auth/audit_log.h"
#include "auth/audit_totals.h"
#include "base/log.h"

namespace kintsugi::auth {
namespace {

constexpr Duration kLogPause = seconds(10);
constexpr std::string_view kListBegin =
    R"({"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[)";

bool may_take_it_later(int status) { return status == 429 || status >= 500; }

}  // namespace

/// Everything but the counters belongs to the loop's thread.
class AuditWebhook::Sender {
 public:
  explicit Sender(AuditWebhookParams params)
      : params_(std::move(params)), path_(std::exchange(params_.server.url.path, {})) {}
  ~Sender() { forget(newest_.exchange(nullptr)); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void add(std::string text);
  void run();
  void stop() {
    loop_.post([this] {
      stopping_ = true;
      patience_.start(params_.last_wait, [this] { give_up(); });
      pause_.cancel();
      go_on();
    });
  }
  [[nodiscard]] Stats stats() const noexcept {
    return {sent_.load(), dropped_.load(), failures_.load(), waiting_.load()};
  }

 private:
  struct Event {
    std::string text;
    Event* next;
  };

  static void forget(Event* event) {
    while (event != nullptr) {
      delete std::exchange(event, event->next);
    }
  }
  void take_new();
  void go_on();
  void post_batch();
  void on_answer(const Expected<net::FetchResponse>& answer);
  void let_go(bool taken);
  void lose(std::size_t events) {
    dropped_ += events;
    audit_totals().dropped += events;
  }
  void note_failure() {
    ++failures_;
    ++audit_totals().failures;
  }
  void report(std::string_view cause);
  void give_up();

  AuditWebhookParams params_;
  const std::string path_;
  // Of all threads.
  std::atomic<Event*> newest_{nullptr};
  std::atomic<std::size_t> waiting_{0}, bytes_{0};
  std::atomic<bool> told_{false};  // the loop knows that there is something
  std::atomic<std::uint64_t> sent_{0}, dropped_{0}, failures_{0};

  net::Loop loop_{"audit"};
  net::Timer batch_{loop_}, pause_{loop_}, patience_{loop_};
  std::unique_ptr<net::Upstream> server_;
  std::unique_ptr<net::Call> call_;
  std::deque<std::string> queue_;  // the oldest first
  std::size_t on_their_way_ = 0;   // the first of the queue
  Duration next_pause_{};
  bool collects_ = false, stopping_ = false;
  TimePoint logged_{};
  std::uint64_t logged_drops_ = 0;
};

AuditWebhook::AuditWebhook(AuditWebhookParams params)
    : sender_(std::make_shared<Sender>(std::move(params))),
      thread_([sender = sender_] { sender->run(); }) {}

AuditWebhook::~AuditWebhook() {
  sender_->stop();
  thread_.join();
}

void AuditWebhook::add(std::string event) { sender_->add(std::move(event)); }

AuditWebhook::Stats AuditWebhook::stats() const noexcept { return sender_->stats(); }

void AuditWebhook::Sender::add(std::string text) {
  const std::size_t size = text.size();
  const bool room = waiting_.fetch_add(1) < params_.queue_events;
  if (bytes_.fetch_add(size) + size > params_.queue_bytes || !room) {
    --waiting_;
    bytes_ -= size;
    ++dropped_;
    ++audit_totals().dropped;
    return;  // told when the batch that is on its way has ended
  }
  ++audit_totals().queued;
  Event* const top = new Event{std::move(text), newest_.load()};
  while (!newest_.compare_exchange_weak(top->next, top)) {
  }
  if (!told_.exchange(true)) {
    loop_.post([this] { take_new(); });
  }
}

void AuditWebhook::Sender::run() {
  ::pthread_setname_np(::pthread_self(), "audit webhook");
  server_ = net::Upstream::make(loop_, params_.server);
  loop_.run();
  call_.reset();
  server_.reset();
}

/// What came until now; the loop is told again when more comes.
void AuditWebhook::Sender::take_new() {
  told_ = false;
  const std::size_t before = queue_.size();
  Event* const newest = newest_.exchange(nullptr);
  for (Event* event = newest; event != nullptr; event = event->next) {
    queue_.emplace_back(std::move(event->text));
  }
  forget(newest);
  std::reverse(queue_.begin() + static_cast<std::ptrdiff_t>(before), queue_.end());
  go_on();
}

void AuditWebhook::Sender::go_on() {
  if (call_ != nullptr) {
    return;
  }
  if (queue_.empty()) {
    if (stopping_) {
      loop_.stop();
    }
    return;
  }
  if (next_pause_ > Duration::zero() && !stopping_) {
    return;  // until the pause is over
  }
  if (stopping_ || queue_.size() >= params_.batch_events) {
    post_batch();
  } else if (!std::exchange(collects_, true)) {  // since the first of them
    batch_.start(params_.batch_wait, [this] { post_batch(); });
  }
}

void AuditWebhook::Sender::post_batch() {
  if (call_ != nullptr || queue_.empty()) {
    return;
  }
  batch_.cancel();
  collects_ = false;
  on_their_way_ = std::min(queue_.size(), params_.batch_events);
  net::FetchRequest request;
  request.method = "POST";
  request.target = path_;
  request.kind = net::UpstreamClass::kWrite;
  request.timeout = params_.timeout;
  request.headers.add("content-type", "application/json");
  if (!params_.authorization.empty()) {
    request.headers.add("authorization", params_.authorization.view());
  }
  request.body = kListBegin;
  for (std::size_t i = 0; i < on_their_way_; ++i) {
    request.body.append(i == 0 ? "" : ",").append(queue_[i]);
  }
  request.body.append("]}");
  call_ = net::fetch(loop_, *server_, std::move(request),
                     [this](const Expected<net::FetchResponse>& answer) { on_answer(answer); });
}

void AuditWebhook::Sender::on_answer(const Expected<net::FetchResponse>& answer) {
  // This is its callback.
  loop_.defer([over = std::shared_ptr<net::Call>(std::move(call_))] {});
  const bool taken = answer && answer->status >= 200 && answer->status < 300;
  if (taken || (answer && !may_take_it_later(answer->status))) {
    next_pause_ = {};
    let_go(taken);
    if (!taken) {
      note_failure();
      report("the server answered " + std::to_string(answer->status));
    } else if (dropped_.load() != logged_drops_) {
      report("the queue was full");
    }
    go_on();
    return;
  }
  note_failure();
  report(answer ? "the server answered " + std::to_string(answer->status)
                : std::string(server_->last_failure().empty() ? answer.error().message()
                                                              : server_->last_failure()));
  next_pause_ = std::min(params_.last_pause, std::max(params_.first_pause, next_pause_ * 2));
  const Duration pause = stopping_ ? params_.first_pause : next_pause_;
  pause_.start(pause, [this] { post_batch(); });
}

/// Of what was on its way.
void AuditWebhook::Sender::let_go(bool taken) {
  for (std::size_t i = 0; i < on_their_way_; ++i) {
    bytes_ -= queue_.front().size();
    queue_.pop_front();
  }
  waiting_ -= on_their_way_;
  audit_totals().queued -= on_their_way_;
  if (taken) {
    sent_ += on_their_way_;
    audit_totals().posted += on_their_way_;
  } else {
    lose(on_their_way_);
  }
  on_their_way_ = 0;
}

void AuditWebhook::Sender::report(std::string_view cause) {
  if (logged_ != TimePoint{} && loop_.now() - logged_ < kLogPause) {
    return;
  }
  logged_ = loop_.now();
  logged_drops_ = dropped_.load();
  log_error(
      "audit webhook does not take events",
      {{"cause", cause}, {"waiting", std::uint64_t{waiting_.load()}}, {"dropped", logged_drops_}});
}

void AuditWebhook::Sender::give_up() {
  log_error("audit webhook: what waits is lost", {{"events", std::uint64_t{waiting_.load()}}});
  lose(waiting_.load());
  audit_totals().queued -= waiting_.load();
  loop_.stop();
}

std::function<void(std::string line)> audit_into(AuditLog* log, AuditWebhook* webhook) {
  return [log, webhook](std::string line) {
    if (webhook != nullptr) {
      webhook->add(log != nullptr ? line : std::move(line));
    }
    if (log != nullptr) {
      log->add(std::move(line));
    }
  };
}

}  // namespace kintsugi::auth
