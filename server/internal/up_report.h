#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "net/loop.h"
#include "server/internal/process_socket.h"
#include "server/internal/supervisor.h"
#include "server/layout.h"

namespace kintsugi::server {

/// A process of an installation as it is now.
struct UpProcess {
  Supervisor::State state;
  std::string not_ready;  ///< why; "": it is ready
};

/// How the processes of an installation are: each is asked, at its socket, when somebody asks
/// (OP-202, OP-406). Threads: the loop's.
class UpReport {
 public:
  struct Params {
    std::function<std::vector<Supervisor::State>()> processes;
    /// Shards that have data in the folder and that this start leaves out.
    std::function<std::vector<std::string>()> left_out;
    Duration patience = seconds(2);  ///< with each; who does not answer is not ready
  };
  UpReport(net::Loop& loop, Params params) : loop_(loop), params_(std::move(params)) {}

  /// @param done  once, in this call or later, while this object is there
  void ask(std::function<void(std::vector<UpProcess>)> done);

  /// /readyz, with a line for each process (503: one is not ready); /debug/processes; /metrics.
  /// They use this object.
  [[nodiscard]] ProcessSocket::Pages pages();

 private:
  using Answer = std::function<std::unique_ptr<http::RequestHandler>(
      const http::RequestHead& head, http::ResponseStream& stream,
      const std::vector<UpProcess>& all)>;
  [[nodiscard]] ProcessSocket::Page page(Answer answer);

  net::Loop& loop_;
  const Params params_;
  std::size_t asking_ = 0;  ///< under way
};

/// "waiting for <process>: <why>; <what to do>; <its log> tells more" (remedies.h).
[[nodiscard]] std::string waiting_line(const std::string& process, const std::string& why,
                                       const Layout& layout);
/// One of each that is not ready.
[[nodiscard]] std::vector<std::string> waiting_lines(const std::vector<UpProcess>& all,
                                                     const Layout& layout);
/// {"processes": [{name, pid, ready, why, seconds, restarts, lastEnd}], "leftOut": […]}: `why` of
/// those that are not ready, `pid` of those that run, `seconds` since the start or the end,
/// `lastEnd` of those that have ended once.
[[nodiscard]] std::string processes_json(const std::vector<UpProcess>& all,
                                         const std::vector<std::string>& left_out);
/// For whoever scrapes, in the text format.
[[nodiscard]] std::string up_metrics_text(const std::vector<UpProcess>& all);

}  // namespace kintsugi::server
