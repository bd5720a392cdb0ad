#include <string>
#include <vector>

#include "proxy/testing/rig.h"
#include "serving/watch_list.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::Rig;

/// Answers with the head and some events, and leaves the stream open.
void open_watch(Exchange& exchange, const std::string& body) {
  http::HeaderList headers;
  headers.add("content-type", "application/json;stream=watch");
  exchange.stream->send_head(200, headers, false);
  exchange.stream->send_data(std::string_view(body), false);
}

TEST(ForwardWatches, R32_EachIsListedWithWhatItWasSentAndWhatWaits) {
  constexpr const char* kEvent = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                                 "\n";
  Rig rig;
  const std::string big(4U << 20, 'x');
  rig.log_in();
  rig.shard.answer = [&, kEvent](Exchange& exchange) {
    open_watch(exchange, exchange.head.target.find("big") != std::string::npos ? big : kEvent);
  };
  Answer reads, unread, plain;
  unread.takes = false;
  rig.send(reads, Rig::get("/clusters/root/api/v1/configmaps?watch=true"));
  rig.send(unread, Rig::get("/clusters/root:one/api/v1/secrets?watch=1&labelSelector=big"));
  const auto rows = [&] {
    serving::WatchList list;
    rig.handler->list_watches(list);
    return list.rows(rig.loop.now());
  };
  ASSERT_TRUE(rig.until([&] {
    const auto now = rows();
    return now.size() == 2 && now[0].queue > 0 && unread.body.size() == now[0].sent &&
           !reads.body.empty();
  }));
  const auto now = rows();
  EXPECT_EQ(now[0].kind, "forwarded");
  EXPECT_EQ(now[0].user, "alice");
  EXPECT_EQ(now[0].address, "127.0.0.1");
  EXPECT_EQ(now[0].cluster, "c1");
  EXPECT_EQ(now[0].path, "/clusters/c1/api/v1/secrets?watch=1&labelSelector=big");
  EXPECT_EQ(now[0].shards, std::vector<std::string>{"alpha"});
  EXPECT_GT(now[0].sent, 0U);
  EXPECT_LT(now[0].sent + now[0].queue, big.size()) << "the shard is held back";
  EXPECT_EQ(now[1].cluster, "root");
  EXPECT_EQ(now[1].queue, 0U);
  EXPECT_EQ(now[1].sent, std::string_view(kEvent).size());
}

}  // namespace
}  // namespace kintsugi::proxy
