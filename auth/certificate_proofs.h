#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/authenticator.h"
#include "auth/proof.h"
#include "auth/x509_identity.h"
#include "base/alive.h"
#include "net/listener.h"
#include "net/loop.h"

namespace kintsugi::auth {

/// Who the clients of one loop's listener are by their certificates, for as long as that holds
/// (SE-040 to SE-044). Connections with equal chains share an identity and its proof, so that a
/// chain is verified once (0.2 ms: what a storm of reconnects costs beside TLS itself), and again
/// only when the verifier was replaced, or the clock was put back. A proof ends, for good, when a
/// certificate of its chain or a revocation list runs out, which is known within half a second by
/// the wall clock whatever that does, and when its chain does not verify any more, which is known
/// within 10 s of a reload; with more than some thousand chains a reload takes the loop longer than
/// a tenth of that time.
///
/// Some thousand answers are kept for clients that may come back, for kLongest.
/// Threads: its loop. Cost per request: none.
class CertificateProofs {
 public:
  static constexpr std::size_t kMostUnused = 4'096;
  static constexpr std::int64_t kLongest = 600;  ///< [s]

  using IdentityPtr = std::shared_ptr<const CertificateIdentity>;
  /// What connections carry.
  struct Kind {
    /// Of a certificate that was judged just now, valid or not.
    std::function<std::shared_ptr<CertificateIdentity>(CertificateIdentity)> make;
    /// Whether streams that began with `before` may go on with `now`. Both are valid.
    std::function<bool(const CertificateIdentity& before, const CertificateIdentity& now)> same;
  };
  /// The identity as it is.
  [[nodiscard]] static Kind plain();

  CertificateProofs(net::Loop& loop, std::shared_ptr<const ReloadableCertificateVerifier> verifier,
                    Kind kind, WallClock now = {});
  ~CertificateProofs();
  CertificateProofs(const CertificateProofs&) = delete;
  CertificateProofs& operator=(const CertificateProofs&) = delete;

  /// Called, once for all, after proofs have ended: streams that rest on them have to, too.
  void on_ended(std::function<void()> ended) { ended_ = std::move(ended); }
  /// The hooks of the listener that the proofs are for; they must not be called without *this.
  void serve(net::ListenerParams& params);
  /// The verdicts stay, what is made of them changes: everything is judged again.
  void set_kind(Kind kind);

  /// For a new connection. @param chain_der leaf first; null: empty.
  [[nodiscard]] IdentityPtr identify(const CertificateChain& chain_der);
  /// What a connection with this identity is now.
  [[nodiscard]] net::PeerVerdict current(const IdentityPtr& identity);

  /// Looks at the clock and at the verifier; the loop does it every half second.
  void look();
  /// Judges some that wait for it. @returns false when none is left.
  bool review_some();

  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }
  /// Chains that wait to be judged again.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Known {
    std::shared_ptr<const CertificateChain> chain;
    IdentityPtr identity;
    std::shared_ptr<Proof> proof;
    std::int64_t from = 0;  ///< when it was judged last
  };
  using Book = std::unordered_map<std::string, Known>;  ///< by SHA-256 of the chain

  [[nodiscard]] bool is_current(const Known& known, std::int64_t now) const;
  void judge(const std::string& key, std::int64_t now);
  void take(Known& known, CertificateIdentity facts, std::int64_t until, std::int64_t now);
  void end(Known& known) noexcept;
  Book::iterator forget(Book::iterator at);
  void start_review();
  void end_overdue(std::int64_t now);
  void sweep(std::int64_t now, bool all);
  void tell();
  void arm();

  net::Loop& loop_;
  std::shared_ptr<const ReloadableCertificateVerifier> verifier_;
  Kind kind_;
  WallClock now_;
  std::function<void()> ended_;
  std::shared_ptr<const CertificateVerifier> asked_;  ///< whose answers are known
  std::uint64_t generation_ = 1;
  Book known_;
  std::deque<std::string> waiting_;
  std::size_t per_slice_ = 0;
  std::size_t sweep_size_ = kMostUnused;
  std::int64_t first_end_ = INT64_MAX;  ///< not later than any proof's
  std::int64_t last_look_ = 0, sweep_at_ = 0;
  TimePoint last_look_at_{};
  bool has_ended_ = false;
  bool armed_ = false;
  Alive alive_;
  net::Timer look_timer_, review_timer_;
};

}  // namespace kintsugi::auth
