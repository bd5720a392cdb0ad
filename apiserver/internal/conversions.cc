#include "apiserver/internal/conversions.h"

#include <algorithm>
#include <utility>

#include "apiserver/internal/conversion_review.h"
#include "base/log.h"
#include "base/strings.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr seconds kTimeout{30};
constexpr std::string_view kQuery = "?timeout=30s";
constexpr std::size_t kMostAnswer = 32U << 20, kLeastAnswer = 1U << 20;  // [bytes], SE-107
constexpr std::size_t kGrows = 3;  // times may an answer be as long as its question
// What rules may cost, as those of schemas [cost units]: in one turn, before others have theirs,
// and for all objects of a request, so much each beside.
constexpr std::uint64_t kTurnCost = 200'000, kMostCost = 10'000'000, kObjectCost = 1'000;
constexpr std::uint64_t kStepCost = 200;  // of an object, whatever its rules say

}  // namespace

struct Conversions::Job {
  std::uint64_t id = 0;
  std::string cluster;
  ServedKindPtr kind;
  std::vector<krm::Json> objects;   ///< all of them, replaced when converted
  std::vector<std::size_t> places;  ///< of those that are sent
  ConversionRequest request;
  Done done;
  std::unique_ptr<net::Call> call;
  std::vector<krm::Json> converted;  ///< by rules, so far
  std::uint64_t spent = 0;           ///< by rules [cost units]
};

Conversions::~Conversions() {
  for (auto& [id, job] : running_) {
    job->call.reset();
  }
}

void Conversions::finish(const std::shared_ptr<Job>& job,
                         Expected<std::vector<krm::Json>> converted) {
  running_.erase(job->id);
  if (!converted) {
    job->done(fail(std::move(converted.error())));
    return;
  }
  for (std::size_t i = 0; i < job->places.size(); ++i) {
    krm::Json& object = job->objects[job->places[i]];
    object = std::move((*converted)[i]);
    job->kind->shape(object);
  }
  job->done(std::move(job->objects));
}

void Conversions::send(const std::shared_ptr<Job>& job) {
  const ConversionWebhook& webhook = *job->kind->def->webhook;
  const std::string subject = conversion_subject(job->request.objects.front()) + " failed: ";
  Expected<std::string> version = review_version(webhook);
  if (!version) {
    finish(job, fail(conversion_failure(subject + std::string(version.error().message()))));
    return;
  }
  job->request.review_version = std::move(*version);
  net::OutgoingRequest post;
  post.cluster = job->cluster;
  post.url = webhook.url;  // "" for a service: there are none
  post.query = kQuery;
  post.ca_pem = webhook.ca_bundle;
  post.method = "POST";
  post.headers.add("accept", "application/json, */*");
  post.headers.add("content-type", "application/json");
  post.body = encode_review(job->request);
  post.echo = job->request.uid;
  post.timeout = kTimeout;
  post.max_body = std::min(kMostAnswer, kGrows * post.body.size() + kLeastAnswer);
  job->call =
      outgoing_.send(std::move(post),
                     [this, weak = std::weak_ptr<Job>(job)](Expected<net::OutgoingAnswer> answer) {
                       if (const std::shared_ptr<Job> kept = weak.lock()) {
                         take_answer(kept, std::move(answer));
                       }
                     });
}

/// Turn by turn: no list holds the loop.
void Conversions::apply_rules(const std::shared_ptr<Job>& job) {
  const auto& rules = job->kind->def->webhook->rules;
  const std::uint64_t most = kMostCost + kObjectCost * job->places.size();
  const std::uint64_t turn_ends = job->spent + kTurnCost;
  while (job->converted.size() < job->places.size()) {
    if (job->spent >= turn_ends) {
      loop_.post([this, weak = std::weak_ptr<Job>(job)] {
        if (const std::shared_ptr<Job> kept = weak.lock()) {
          apply_rules(kept);
        }
      });
      return;
    }
    const krm::Json& object = job->request.objects[job->converted.size()];
    job->spent += kStepCost;
    Expected<krm::Json> converted = rules(object, *job->kind->version, job->spent);
    if (!converted || job->spent > most) {
      finish(job, fail(conversion_failure("conversion for " + object_kind(object) + " failed: " +
                                          (converted ? "the rules cost too much for so many objects"
                                                     : std::string(converted.error().message())))));
      return;
    }
    job->converted.push_back(std::move(*converted));
  }
  finish(job, std::move(job->converted));
}

void Conversions::take_answer(const std::shared_ptr<Job>& job,
                              Expected<net::OutgoingAnswer> answer) {
  // It may not go inside its own callback.
  loop_.defer([call = std::shared_ptr<net::Call>(std::move(job->call))] {});
  const std::string subject = conversion_subject(job->request.objects.front()) + " failed: ";
  if (!answer) {
    finish(job, fail(conversion_failure(subject + std::string(answer.error().message()))));
    return;
  }
  Expected<std::vector<krm::Json>> objects = decode_review(job->request, answer->body);
  if (!objects) {
    log_warn("the answer of a conversion webhook cannot be used",
             {{"cluster", job->cluster}, {"error", objects.error().message().substr(0, 1'024)}});
    // Definitions serve their own logical cluster alone; schemas of exports serve others.
    const bool is_own = job->kind->def->identity.empty();
    const std::string message = is_own ? failure_message(job->request, answer->body) : "";
    finish(job, fail(conversion_failure(
                    subject + (message.empty() ? std::string(net::kNotUnderstood) : message))));
    return;
  }
  finish(job, std::move(objects));
}

void Conversions::convert(std::string cluster, ServedKindPtr kind, std::vector<krm::Json> objects,
                          Done done) {
  auto job = std::make_shared<Job>();
  job->id = ++next_;
  job->cluster = std::move(cluster);
  job->kind = std::move(kind);
  job->objects = std::move(objects);
  job->done = std::move(done);
  for (std::size_t i = 0; i < job->objects.size(); ++i) {
    if (job->objects[i].text({"apiVersion"}) != job->kind->api_version) {
      job->places.push_back(i);
      job->request.objects.push_back(job->objects[i]);
    }
  }
  job->request.desired = job->kind->api_version;
  job->request.uid = random_uuid();
  running_.emplace(job->id, job);
  loop_.post([this, weak = std::weak_ptr<Job>(job)] {
    const std::shared_ptr<Job> kept = weak.lock();
    if (kept == nullptr) {
      return;
    }
    if (kept->places.empty()) {
      finish(kept, std::vector<krm::Json>());
    } else if (kept->kind->def->webhook->rules) {
      apply_rules(kept);
    } else {
      send(kept);
    }
  });
}

void Conversions::convert_one(std::string cluster, ServedKindPtr kind, krm::Json object,
                              std::function<void(Expected<krm::Json>)> done) {
  std::vector<krm::Json> objects;
  objects.push_back(std::move(object));
  convert(std::move(cluster), std::move(kind), std::move(objects),
          [done = std::move(done)](Expected<std::vector<krm::Json>> converted) {
            if (!converted) {
              done(fail(std::move(converted.error())));
              return;
            }
            done(std::move(converted->front()));
          });
}

}  // namespace kintsugi::apiserver::internal
