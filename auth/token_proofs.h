#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/bearer.h"
#include "auth/proof.h"
#include "auth/user.h"
#include "base/alive.h"
#include "base/error.h"
#include "base/secret.h"
#include "net/loop.h"

namespace kintsugi::auth {

/// The second from which on a JSON Web Token does not hold by its own word (`exp`); INT64_MAX for
/// other tokens. Nothing is verified: for tokens that were.
[[nodiscard]] std::int64_t expiry_of(const Bearer& token);

/// The bearer tokens that running streams of one loop rest on, and whether they still mean whom
/// they meant (SE-045, SE-046, SE-048): each is judged again every `every` ± a fifth, and all of
/// them soon after ask_all(). A proof ends when its token is past its time by the wall clock, is
/// refused, means somebody else, or could not be judged for `patience`. Threads: its loop. Cost:
/// per stream that goes on, none per request.
class TokenProofs {
 public:
  struct Limits {
    /// With 10 s of a cached verdict, a token ends its streams within a minute.
    Duration every = seconds(40);
    Duration patience = seconds(300);  ///< while nobody can tell (SE-046)
    std::size_t per_look = 32;         ///< questions in half a second, besides those on time
  };
  /// Judges a token as it was judged for the request. Answers once, at once or later.
  /// nullopt: no credential.
  using Done = std::function<void(Expected<std::optional<UserInfo>>)>;
  using Ask = std::function<void(std::string_view token, const std::string& cluster, Done done)>;

  TokenProofs(net::Loop& loop, Ask ask, Limits limits, WallClock now = {});
  TokenProofs(net::Loop& loop, Ask ask) : TokenProofs(loop, std::move(ask), Limits()) {}
  ~TokenProofs();
  TokenProofs(const TokenProofs&) = delete;
  TokenProofs& operator=(const TokenProofs&) = delete;

  /// Called, once for all, after proofs have ended.
  void on_ended(std::function<void()> ended) { ended_ = std::move(ended); }

  /// A proof for one request, not yet looked after: as long as it is short, it needs no more.
  [[nodiscard]] std::shared_ptr<Proof> begin() const;
  /// The request goes on: its proof is looked after while anybody else holds it.
  /// @param cluster logical cluster whose issuers may have judged it, "": none
  /// @param user    whom the token means
  void follow(const std::shared_ptr<Proof>& proof, const Bearer& token, std::string_view cluster,
              const UserInfo& user);
  /// What judges tokens has changed: all are judged again, within seconds.
  void ask_all();
  /// Looks at clock and list; the loop does it every half second.
  void look();
  /// Tokens that are looked after.
  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }

 private:
  struct Known {
    Secret token;
    std::string cluster;
    UserInfo user;
    std::int64_t valid_until = INT64_MAX;
    std::uint64_t generation = 0;  ///< of the last answer
    TimePoint next{}, answered{};  ///< question, answer that told
    bool asked = false;            ///< an answer is awaited
    std::vector<std::weak_ptr<Proof>> proofs;
  };
  using Book = std::unordered_map<std::string, Known>;  ///< by SHA-256 of token and cluster

  void ask(const std::string& key, Known& known);
  void answer(const std::string& key, std::uint64_t generation,
              const Expected<std::optional<UserInfo>>& result);
  void end(Known& known);
  void tell();
  void arm();
  [[nodiscard]] Duration pause() const;

  net::Loop& loop_;
  Ask ask_;
  Limits limits_;
  WallClock now_;
  std::function<void()> ended_;
  std::uint64_t generation_ = 1;
  Book known_;
  bool armed_ = false, has_ended_ = false;
  Alive alive_;
  net::Timer timer_;
};

}  // namespace kintsugi::auth
