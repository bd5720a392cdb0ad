#include "cmd/kintsugi/backend_check.h"

#include <utility>

namespace kintsugi::cmd {
namespace {

constexpr Duration kAgain = milliseconds(500);
constexpr std::string_view kNobody = "kintsugi-backend-check";

}  // namespace

BackendCheck::BackendCheck(net::Loop& loop, net::UpstreamParams shard,
                           std::function<void(Expected<void>)> done)
    : loop_(loop),
      shard_(net::Upstream::make(loop, std::move(shard))),
      done_(std::move(done)),
      again_(loop) {
  ask();
}

BackendCheck::~BackendCheck() = default;

void BackendCheck::ask() {
  net::FetchRequest request;
  request.method = "POST";
  request.target = "/clusters/root/apis/authentication.k8s.io/v1/selfsubjectreviews";
  request.headers.add("x-remote-user", kNobody);
  request.headers.add("x-remote-group", "system:authenticated");
  request.headers.add("content-type", "application/json");
  request.headers.add("accept", "application/json");
  request.body = R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})";
  call_ = net::fetch(
      loop_, *shard_, std::move(request), [this](const Expected<net::FetchResponse>& answer) {
        // 201 tells who this is, 403 to whom it was refused.
        const bool tells =
            answer && (answer->status == 200 || answer->status == 201 || answer->status == 403);
        if (!tells) {
          again_.start(kAgain, [this] { ask(); });
          return;
        }
        const bool asserts = answer->body.find(kNobody) != std::string::npos;
        loop_.post([done = done_, asserts] {
          done(asserts ? Expected<void>()
                       : Expected<void>(fail(Errc::kConfig,
                                             "its client certificate does not assert identities at "
                                             "the shards: every caller would be its owner. Name a "
                                             "request-header pair in the entry /clusters/ of the "
                                             "mapping file")));
        });
      });
}

}  // namespace kintsugi::cmd
