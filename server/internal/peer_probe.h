#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "proxy/forwarding/backend_check.h"
#include "server/config_check.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// One server that a configuration names, and what it is asked (OP-105, level `deep`).
struct Peer {
  enum class Asks : std::uint8_t {
    kAnswers,   ///< any answer to a GET of `target` but 401, 403 and failures of its own
    kReads,     ///< the same, and it is there: 404 is a finding, too
    kAsserted,  ///< whom it takes a caller for whom headers name (FP-162)
    kEtcd,      ///< a member: its /version, then what `etcd` needs
  };
  std::string place;  ///< "<file>:<line>: <key>", the beginning of a finding
  std::string name;   ///< "root", "shard-1"
  net::UpstreamParams server;
  Asks asks = Asks::kAnswers;
  std::string target = "/";
  http::HeaderList headers = {};  ///< credentials that the TLS context does not have
  bool required = false;          ///< nothing starts without it; else findings are warnings
  store::EtcdParams etcd = {};    ///< of kEtcd, with this member as its only endpoint
  /// Those whom an answer 200 names; they are asked, too.
  std::function<std::vector<Peer>(std::string_view body)> more = {};
};

/// Asks all of them at once and tells what is wrong with each: that its name is not known, who
/// refuses, what is wrong with certificates, whom it takes us for, what it does not allow, that it
/// does not answer, that its clock is wrong. What peers hold is not shown. Threads: one, which
/// blocks.
class PeerProbe {
 public:
  struct Bounds {
    Duration each = seconds(5);  ///< for an answer
    Duration all = seconds(15);  ///< for run()
    std::size_t most = 256;      ///< peers; others are not asked, which is told
    std::size_t at_once = 32;
  };
  explicit PeerProbe(Bounds bounds);
  PeerProbe() : PeerProbe(Bounds()) {}
  ~PeerProbe();

  void add(Peer peer);
  /// What was found by anybody else.
  void find(ConfigFinding finding) { check_.findings.push_back(std::move(finding)); }
  /// Once. Findings are in the order of add().
  [[nodiscard]] ConfigCheck run();

 private:
  struct Asked;
  void begin();
  void done(Asked& asked);
  void finding(Asked& asked, bool is_error, const std::string& what);
  [[nodiscard]] net::Task<> ask(Asked& asked);
  [[nodiscard]] net::Task<> ask_etcd(Asked& asked);
  void ask_identity(Asked& asked);
  void judge(Asked& asked, const Expected<net::FetchResponse>& answer);

  const Bounds bounds_;
  net::Loop loop_;
  net::Timer limit_;
  std::list<std::unique_ptr<Asked>> asked_;
  std::size_t running_ = 0;
  std::size_t begun_ = 0, left_out_ = 0;
  ConfigCheck check_;
};

/// How many seconds a `Date` header is ahead of `now` [s since 1970]; nullopt: it is none.
[[nodiscard]] std::optional<std::int64_t> seconds_ahead(std::string_view date, std::int64_t now);

}  // namespace kintsugi::server
