#include "kinds/policies/webhooks/webhook_calls.h"

#include <algorithm>
#include <utility>

namespace kintsugi::kinds {
namespace {

constexpr std::string_view kNoServices = "there are no services here, clientConfig.url is needed";

/// Whole seconds, as many as are left or begin.
std::string timeout_query(Duration timeout) {
  return "?timeout=" + std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count()) +
         "s";
}

}  // namespace

struct WebhookCalls::Job {
  Job(net::Loop& loop, Question asked, std::function<void(Expected<std::string>)> then)
      : question(std::move(asked)), done(std::move(then)), limit(loop) {}
  Question question;
  std::function<void(Expected<std::string>)> done;
  net::Timer limit;  // while it waits
  TimePoint ends{};
  std::size_t bytes = 0;
  std::unique_ptr<net::Call> call;
};

WebhookCalls::~WebhookCalls() {
  for (auto& [key, job] : running_) {
    job->call.reset();
  }
}

void WebhookCalls::ask(Question question, std::function<void(Expected<std::string>)> done) {
  const Duration timeout = std::min(question.webhook->timeout, question.time_left);
  auto job = std::make_shared<Job>(loop_, std::move(question), std::move(done));
  job->ends = loop_.now() + timeout;
  std::string_view fault;
  if (job->question.webhook->url.empty()) {
    fault = kNoServices;
  } else if (waiting_.size() >= kMostWaiting) {
    fault = net::kNotReached;
  }
  if (!fault.empty()) {
    loop_.post(alive_.guard([job, fault] {
      const auto call = std::exchange(job->done, nullptr);
      call(fail(Errc::kUnreachable, std::string(fault)));
    }));
    return;
  }
  job->limit.start(timeout, [this, weak = std::weak_ptr<Job>(job)] {
    if (const JobPtr late = weak.lock()) {
      waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), late), waiting_.end());
      const auto call = std::exchange(late->done, nullptr);
      call(fail(Errc::kUnreachable, std::string(net::kNotReached)));
    }
  });
  waiting_.push_back(std::move(job));
  pump();
}

/// Whoever is first of those whose cluster has room.
void WebhookCalls::pump() {
  for (auto at = waiting_.begin();
       at != waiting_.end() && running_.size() < kMostAtOnce && bytes_ < kMostBytes;) {
    std::size_t& running = of_cluster_[(*at)->question.cluster];
    if (running >= kMostOfCluster) {
      ++at;
      continue;
    }
    ++running;
    const JobPtr job = std::move(*at);
    at = waiting_.erase(at);
    job->limit.cancel();
    running_.emplace(job.get(), job);
    send(job);
  }
}

void WebhookCalls::send(const JobPtr& job) {
  net::OutgoingRequest post;
  post.cluster = job->question.cluster;
  post.url = job->question.webhook->url;
  post.timeout = std::max<Duration>(job->ends - loop_.now(), milliseconds(1));
  post.query = timeout_query(post.timeout);
  post.ca_pem = job->question.webhook->ca_pem;
  post.method = "POST";
  post.headers.add("accept", "application/json, */*");
  post.headers.add("content-type", "application/json");
  post.body = job->question.body();
  job->question.body = nullptr;
  post.max_body = kMostAnswer;
  post.echo = job->question.uid;
  job->bytes = post.body.size();
  bytes_ += job->bytes;
  job->call =
      outgoing_.send(std::move(post),
                     [this, weak = std::weak_ptr<Job>(job)](Expected<net::OutgoingAnswer> answer) {
                       if (const JobPtr kept = weak.lock()) {
                         finish(kept, answer ? Expected<std::string>(std::move(answer->body))
                                             : fail(std::move(answer.error())));
                       }
                     });
}

void WebhookCalls::finish(const JobPtr& job, Expected<std::string> result) {
  // It may not go inside its own callback.
  loop_.defer([call = std::shared_ptr<net::Call>(std::move(job->call))] {});
  bytes_ -= job->bytes;
  running_.erase(job.get());
  if (const auto found = of_cluster_.find(job->question.cluster); --found->second == 0) {
    of_cluster_.erase(found);
  }
  const auto call = std::exchange(job->done, nullptr);
  call(std::move(result));
  pump();
}

}  // namespace kintsugi::kinds
