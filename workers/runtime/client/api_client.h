#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/alive.h"
#include "base/error.h"
#include "base/time.h"
#include "http/headers.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "workers/runtime/client/internal/write_budget.h"
#include "workers/runtime/client/internal/write_window.h"

namespace kintsugi::workers {

/// What became of a request.
struct ApiAnswer {
  int status = 0;          ///< 0: there was no answer
  Errc cause = Errc::kOk;  ///< why not; kCancelled: it was not sent, since the guard said no
  krm::Json body;          ///< the object, or a Status
  std::string raw;         ///< the same as it came
  Duration retry_after{};  ///< as the server said; 0: it did not
  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
  [[nodiscard]] bool is(int code) const noexcept { return status == code; }
  /// There is no such object: a 404 that names it. One of a server that does not know the path, as
  /// a proxy that has just begun, names none and says nothing of the object.
  [[nodiscard]] bool says_missing() const noexcept {
    return is(404) && !body.text({"details", "name"}).empty();
  }
  /// For people: "HTTP 409: the object has been modified", cut to 256 bytes.
  [[nodiscard]] std::string text() const;
};

/// Which budget a write is taken from, so that none of them starves another (RT-16).
enum class WriteKind : std::uint8_t { kObject, kStatus, kLease };
inline constexpr std::size_t kWriteKinds = 3;

/// One write.
struct ApiWrite {
  std::string method;  ///< POST, PUT, PATCH, DELETE
  std::string path;    ///< below the client's prefix, with the query
  std::string body;
  std::string content_type = "application/json";
  WriteKind kind = WriteKind::kObject;
  Duration timeout{};               ///< 0: the client's
  std::function<bool()> may_write;  ///< besides the client's guard; empty: nothing
};
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kJsonPatch = "application/json-patch+json";

/// For rest_client_requests_total and rest_client_request_duration_seconds (section 12).
struct ApiCounts {
  std::map<std::pair<std::string, std::string>, std::uint64_t> requests;  ///< (code, method)
  std::uint64_t withheld = 0;  ///< writes that were not sent, since the lease guard said no
  std::uint64_t answers = 0;
  Duration waited{};  ///< for all answers together
};

/// What every request of a worker has: who it is, and its name. @param credentials  may be empty
[[nodiscard]] http::HeaderList worker_headers(const std::function<http::HeaderList()>& credentials,
                                              std::string_view user_agent);

/// Requests of one role at one endpoint. Writes of kObject and kStatus wait, in their order, while
/// as many are under way as the server takes (WriteWindow). Source: RT-13, RT-16, section 6.5.
/// Threads: its loop's. Lifetime: the upstream and the client outlive every Task that it made.
class ApiClient {
 public:
  struct Params {
    std::string prefix;                             ///< of every path: that of the endpoint's URL
    std::string user_agent;                         ///< "kintsugi-worker/<version> (<role>)"
    std::function<http::HeaderList()> credentials;  ///< headers besides; may be empty
    double writes_per_second = 200;
    double burst = 400;
    Duration timeout = seconds(10);
  };
  ApiClient(net::Loop& loop, net::Upstream& upstream, Params params);
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  /// The lease guard: asked when a write of kObject or kStatus is sent, after it has waited for its
  /// budget (RT-55). Empty: always.
  void set_guard(std::function<bool()> may_write) { may_write_ = std::move(may_write); }

  /// @param timeout  0: the client's
  [[nodiscard]] net::Task<ApiAnswer> get(std::string path, Duration timeout = {});
  [[nodiscard]] net::Task<ApiAnswer> write(ApiWrite write);

  [[nodiscard]] const ApiCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const WriteWindow& window() const noexcept { return window_; }

 private:
  /// A write's place in the window, from when it asks for one until its frame dies.
  class Turn {
   public:
    explicit Turn(ApiClient& client) noexcept : client_(client) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// @returns false: `go` is called when it has a place.
    [[nodiscard]] bool take(std::function<void(bool)> go);
    void answered(bool refused);

   private:
    friend class ApiClient;
    enum class State : std::uint8_t { kNone, kWaits, kTaken };
    ApiClient& client_;
    State state_ = State::kNone;
    std::list<Turn*>::iterator at_{};
    std::function<void(bool)> go_;
  };
  void next_turns();
  [[nodiscard]] net::Task<ApiAnswer> send(net::FetchRequest request);
  [[nodiscard]] http::HeaderList headers(std::string_view content_type) const;

  net::Loop& loop_;
  net::Upstream& upstream_;
  Params params_;
  std::function<bool()> may_write_;
  std::array<WriteBudget, kWriteKinds> budgets_;
  WriteWindow window_;
  std::list<Turn*> turns_;  // that wait
  bool waking_ = false;
  ApiCounts counts_;
  Alive alive_;
};

}  // namespace kintsugi::workers
