#include "apiserver/internal/conversions.h"

#include <algorithm>
#include <utility>

#include "apiserver/internal/conversion_review.h"
#include "base/strings.h"
#include "krm/go_text.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr seconds kTimeout{30};
constexpr std::string_view kQuery = "?timeout=30s";
constexpr std::size_t kMaxPools = 256;
constexpr std::size_t kMaxShownBody = 256;

}  // namespace

struct Conversions::Job {
  std::uint64_t id = 0;
  ServedKindPtr kind;
  std::vector<krm::Json> objects;   ///< all of them, replaced when converted
  std::vector<std::size_t> places;  ///< of those that are sent
  ConversionRequest request;
  Done done;
  std::shared_ptr<net::Upstream> upstream;
  std::unique_ptr<net::Call> call;
};

Conversions::~Conversions() {
  for (auto& [id, job] : running_) {
    job->call.reset();
  }
}

Expected<std::shared_ptr<net::Upstream>> Conversions::upstream_of(
    const ConversionWebhook& webhook) {
  if (webhook.url.empty()) {
    return fail(Errc::kInternal, "service " + krm::go_quote(webhook.service) +
                                     " not found: this server has no services, "
                                     "clientConfig.url is needed");
  }
  std::string key = webhook.url + '\n' + webhook.ca_bundle;
  Pool& known = pools_[key];
  known.last_use = ++next_;
  if (known.upstream != nullptr) {
    return known.upstream;
  }
  net::UpstreamParams params;
  Expected<net::Url> url = net::Url::parse(webhook.url);
  Expected<std::shared_ptr<net::TlsContext>> tls = fail(Errc::kConfig, "no https");
  if (url) {
    params.url = std::move(*url);
    net::TlsParams trust;
    trust.ca_pem = webhook.ca_bundle;
    tls = net::TlsContext::client(trust);
  }
  if (!url || !tls) {
    pools_.erase(key);
    return fail(!url ? std::move(url.error()) : std::move(tls.error()));
  }
  params.tls = std::move(*tls);
  known.upstream = net::Upstream::make(loop_, std::move(params));
  if (pools_.size() > kMaxPools) {
    // Calls keep the pool that they use.
    const auto oldest = std::min_element(
        pools_.begin(), pools_.end(),
        [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
    std::shared_ptr<net::Upstream> upstream = std::move(oldest->second.upstream);
    pools_.erase(oldest);
    loop_.defer([upstream = std::move(upstream)] {});
  }
  return known.upstream;
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
  const std::string subject = conversion_subject(job->request.objects.front());
  const std::string post =
      subject + " failed: Post \"" + webhook.url + std::string(kQuery) + "\": ";
  Expected<std::string> version = review_version(webhook);
  Expected<std::shared_ptr<net::Upstream>> upstream = upstream_of(webhook);
  if (!version || !upstream) {
    const Error& error = version ? upstream.error() : version.error();
    finish(job, fail(conversion_failure((version ? post : "") + std::string(error.message()))));
    return;
  }
  job->request.review_version = std::move(*version);
  job->upstream = std::move(*upstream);
  net::FetchRequest fetch;
  fetch.method = "POST";
  fetch.target = kQuery;
  fetch.headers.add("accept", "application/json, */*");
  fetch.headers.add("content-type", "application/json");
  fetch.body = encode_review(job->request);
  fetch.timeout = kTimeout;
  fetch.kind = net::UpstreamClass::kWrite;
  job->call = net::fetch(
      loop_, *job->upstream, std::move(fetch),
      [this, weak = std::weak_ptr<Job>(job), subject, post](Expected<net::FetchResponse> answer) {
        const std::shared_ptr<Job> kept = weak.lock();
        if (kept == nullptr) {
          return;
        }
        // Neither may go inside its own callback.
        loop_.defer([call = std::shared_ptr<net::Call>(std::move(kept->call)),
                     pool = std::move(kept->upstream)] {});
        if (!answer) {
          const std::string why = answer.error().code() == Errc::kDeadline
                                      ? "context deadline exceeded"
                                      : std::string(answer.error().message());
          finish(kept, fail(conversion_failure(post + why)));
        } else if (answer->status != 200) {
          finish(kept, fail(conversion_failure(
                           subject + " failed: an error on the server (" +
                           krm::go_quote(std::string_view(answer->body).substr(0, kMaxShownBody)) +
                           ") has prevented the request from succeeding: status code " +
                           std::to_string(answer->status))));
        } else {
          finish(kept, decode_review(kept->request, answer->body));
        }
      });
}

void Conversions::convert(ServedKindPtr kind, std::vector<krm::Json> objects, Done done) {
  auto job = std::make_shared<Job>();
  job->id = ++next_;
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
    } else {
      send(kept);
    }
  });
}

void Conversions::convert_one(ServedKindPtr kind, krm::Json object,
                              std::function<void(Expected<krm::Json>)> done) {
  std::vector<krm::Json> objects;
  objects.push_back(std::move(object));
  convert(std::move(kind), std::move(objects),
          [done = std::move(done)](Expected<std::vector<krm::Json>> converted) {
            if (!converted) {
              done(fail(std::move(converted.error())));
              return;
            }
            done(std::move(converted->front()));
          });
}

}  // namespace kintsugi::apiserver::internal
