// Requests that end after the client of their shard: it is destroyed when the shard is removed.
#include <memory>
#include <optional>
#include <string>

#include "aggregation/asking/member_call.h"
#include "proxy/forwarding/forward.h"
#include "proxy/forwarding/unmarked_write.h"
#include "proxy/testing/rig.h"
#include "serving/captured_answer.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

/// A client of the rig's shard, connected, that the test destroys. One more failure takes it down,
/// which must not be noticed once its destruction has begun.
class Leaving {
 public:
  explicit Leaving(Rig& rig) {
    shards::ShardClientParams params;
    params.name = "leaving";
    params.probe = false;
    params.upstream = [](const std::string& url) -> Expected<net::UpstreamParams> {
      net::UpstreamParams upstream;
      upstream.url = Rig::must(net::Url::parse(url));
      upstream.prior_knowledge = true;
      return upstream;
    };
    client_ = std::make_unique<shards::ShardClient>(rig.loop, std::move(params),
                                                    [this] { touched = touched || gone; });
    EXPECT_TRUE(client_->set_base_url("http://127.0.0.1:" + std::to_string(rig.shard_port)));
    rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
    Answer first;
    first.stream = &client_->upstream()->open(net::UpstreamClass::kRead, Rig::get("/livez"), first);
    EXPECT_TRUE(rig.until([&] { return first.closed; }));
    for (std::size_t i = 1; i < shards::HealthFsm::kFailures; ++i) {
      client_->on_failure(Errc::kReset);
    }
  }
  [[nodiscard]] shards::ShardClient& client() { return *client_; }
  /// Requests of this turn end with kNotProcessed: nothing of them was sent.
  void destroy() {
    gone = true;
    client_.reset();
  }
  bool gone = false, touched = false;

 private:
  std::unique_ptr<shards::ShardClient> client_;
};

TEST(ForwardOfALeavingShard, WhenItWasSentInTheSameTurn_TheRequestIsAnsweredAlone) {
  Rig rig;
  Leaving leaving(rig);
  ForwardLoop shared(rig.loop);
  const http::PeerInfo peer;
  serving::CapturedAnswer answer(peer, [] {});
  const auto request =
      forward(shared, Rig::get("/clusters/root/api"), answer, leaving.client(), false);
  leaving.destroy();
  EXPECT_EQ(shared.stats.retries, 1U) << "the shard has not seen it";
  ASSERT_TRUE(rig.until([&] { return answer.ended(); }));
  EXPECT_EQ(answer.status(), 503) << "there is nobody to ask again";
  EXPECT_FALSE(leaving.touched);
}

TEST(UnmarkedWriteOfALeavingShard, WhenItsBodyEndsLater_TheRequestIsAnsweredAlone) {
  Rig rig;
  Leaving leaving(rig);
  ForwardLoop shared(rig.loop);
  const http::PeerInfo peer;
  serving::CapturedAnswer answer(peer, [] {});
  const auto request =
      forward_unmarked(shared, Rig::request("POST", "/clusters/root/api/v1/configmaps", false),
                       answer, leaving.client());
  leaving.destroy();
  request->on_data("{}", true);
  EXPECT_EQ(answer.status(), 503);
  EXPECT_FALSE(leaving.touched);
}

TEST(MemberCallOfALeavingShard, WhenItWasSentInTheSameTurn_OnlyTheListenerHears) {
  struct Heard final : aggregation::MemberCall::Listener {
    void on_head(const http::ResponseHead& /*head*/) noexcept override {}
    void on_data(std::string_view /*bytes*/) noexcept override {}
    void on_end(Errc cause) noexcept override { end = cause; }
    void on_fault() override {}
    std::optional<Errc> end;
  } heard;
  Rig rig;
  Leaving leaving(rig);
  aggregation::MemberCall call(rig.loop, heard);
  ASSERT_TRUE(call.open(leaving.client(), net::UpstreamClass::kRead, Rig::get("/clusters/*/api")));
  leaving.destroy();
  ASSERT_TRUE(rig.until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.end, Errc::kNotProcessed) << "a failure, as a broken connection is";
  EXPECT_FALSE(leaving.touched);
}

}  // namespace
}  // namespace kintsugi::proxy
