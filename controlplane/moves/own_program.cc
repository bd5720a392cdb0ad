#include "controlplane/moves/own_program.h"

#include <string_view>
#include <utility>

#include "krm/json.h"
#include "krm/version.h"

namespace kintsugi::controlplane {

void ask_for_other_program(PeerShards& peers, const std::string& shard,
                           std::function<void(bool is_other)> done) {
  net::FetchRequest request;
  request.method = "GET";
  request.target = "/version";
  request.headers.add("accept", "application/json");
  request.headers.add("user-agent", "kintsugi-migration");
  request.timeout = seconds(5);
  request.kind = net::UpstreamClass::kRead;
  peers.send(shard, std::move(request),
             [done = std::move(done)](const Expected<net::FetchResponse>& answer) {
               const Expected<krm::Json> version = answer && answer->status == 200
                                                       ? krm::Json::parse(answer->body)
                                                       : fail(Errc::kUnavailable);
               const std::string_view told =
                   version ? version->text({"gitVersion"}) : std::string_view();
               done(!told.empty() && told.find(krm::kVersionMark) == std::string_view::npos);
             });
}

}  // namespace kintsugi::controlplane
