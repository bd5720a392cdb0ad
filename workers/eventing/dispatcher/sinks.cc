#include "workers/eventing/dispatcher/sinks.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

std::unique_ptr<net::Call> Sink::post(http::HeaderList headers, std::string body, Duration timeout,
                                      std::function<void(Expected<net::FetchResponse>)> done) {
  net::FetchRequest request;
  request.method = "POST";
  request.target = target_;
  request.headers = std::move(headers);
  request.body = std::move(body);
  request.timeout = timeout;
  request.kind = net::UpstreamClass::kWrite;
  return net::fetch(loop_, *origin_, std::move(request), std::move(done));
}

Expected<std::shared_ptr<Sink>> Sinks::find(const std::string& url, const std::string& ca_pem) {
  const std::size_t question = std::min(url.find('?'), url.size());
  auto parsed = net::Url::parse(std::string_view(url).substr(0, question));
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  // As it is written: a slash at its end is a part of it.
  const std::size_t host = url.find("://") + 3;
  const std::size_t path = std::min(url.find('/', host), question);
  std::string target = url.substr(path, question - path);
  target = (target.empty() ? "/" : target) + url.substr(question);
  parsed->path.clear();
  const std::string key = parsed->scheme + "://" + parsed->authority() + "\n" + ca_pem;
  std::erase_if(origins_, [](const auto& one) { return one.second.expired(); });
  std::shared_ptr<net::Upstream> origin = origins_[key].lock();
  if (origin == nullptr) {
    net::UpstreamParams params;
    params.url = *parsed;
    if (parsed->scheme == "https") {
      net::TlsParams tls;
      tls.ca_pem = ca_pem;
      auto context = net::TlsContext::client(tls);
      if (!context) {
        return fail(std::move(context.error()));
      }
      params.tls = std::move(*context);
    }
    origin = std::shared_ptr<net::Upstream>(
        net::Upstream::make(loop_, std::move(params)).release(),
        [&loop = loop_](net::Upstream* one) {
          loop.defer([ended = std::shared_ptr<net::Upstream>(one)] {});
        });
    origins_[key] = origin;
  }
  return std::shared_ptr<Sink>(new Sink(loop_, std::move(origin), url, std::move(target)));
}

}  // namespace kintsugi::workers
