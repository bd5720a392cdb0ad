#include "auth/certificate_proofs.h"

#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/time.h"

namespace kintsugi::auth {
namespace {

constexpr Duration kLook = milliseconds(500);
constexpr Duration kSlicePause = milliseconds(10);
constexpr Duration kSlice = milliseconds(1);
constexpr std::size_t kSlices = 900;      // a review takes 9 s at most
constexpr std::int64_t kJump = 1;         // [s]
constexpr std::int64_t kSweepEvery = 60;  // [s]

/// DER says its own length, so a chain is unambiguous without separators.
std::string digest_of(const CertificateChain& chain) {
  std::string text;
  for (const std::string& der : chain) {
    text += der;
  }
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace

CertificateProofs::Kind CertificateProofs::plain() {
  return {[](CertificateIdentity identity) {
            return std::make_shared<CertificateIdentity>(std::move(identity));
          },
          [](const CertificateIdentity& before, const CertificateIdentity& now) {
            return before.from_client_ca == now.from_client_ca &&
                   before.from_request_header_ca == now.from_request_header_ca;
          }};
}

CertificateProofs::CertificateProofs(net::Loop& loop,
                                     std::shared_ptr<const ReloadableCertificateVerifier> verifier,
                                     Kind kind, WallClock now)
    : loop_(loop),
      verifier_(std::move(verifier)),
      kind_(std::move(kind)),
      now_(now ? std::move(now) : WallClock([] { return unix_seconds(); })),
      asked_(verifier_->current()),
      look_timer_(loop),
      review_timer_(loop) {}

CertificateProofs::~CertificateProofs() = default;

void CertificateProofs::serve(net::ListenerParams& params) {
  params.identify = [this](const http::PeerInfo& peer) -> std::shared_ptr<const void> {
    return identify(peer.certificates_der);
  };
  params.review = [this](const std::shared_ptr<const void>& identity) {
    return current(std::static_pointer_cast<const CertificateIdentity>(identity));
  };
}

void CertificateProofs::set_kind(Kind kind) {
  kind_ = std::move(kind);
  start_review();
}

bool CertificateProofs::is_current(const Known& known, std::int64_t now) const {
  return known.proof->generation == generation_ && now >= known.from &&
         now < known.proof->valid_until;
}

CertificateProofs::IdentityPtr CertificateProofs::identify(const CertificateChain& chain_der) {
  if (chain_der.empty()) {
    return nullptr;
  }
  look();
  const std::int64_t now = now_();
  const std::string key = digest_of(chain_der);
  auto found = known_.find(key);
  if (found != known_.end() && !is_current(found->second, now)) {
    judge(key, now);
    tell();
    found = known_.find(key);
  }
  if (found != known_.end()) {
    return found->second.identity;
  }
  std::int64_t until = 0;
  CertificateIdentity facts = asked_->identify(chain_der, now, &until);
  if (!facts.valid) {
    return kind_.make(std::move(facts));
  }
  if (known_.size() >= sweep_size_) {
    sweep(now, false);
    sweep_size_ = std::max(kMostUnused, 2 * known_.size());
  }
  Known known;
  known.chain = verifier_->share(key, chain_der);
  take(known, std::move(facts), until, now);
  IdentityPtr identity = known.identity;
  known_.emplace(key, std::move(known));
  arm();
  return identity;
}

/// The chain verifies: its proof goes on, or makes way for another.
void CertificateProofs::take(Known& known, CertificateIdentity facts, std::int64_t until,
                             std::int64_t now) {
  auto proof = std::make_shared<Proof>();
  const std::string key = digest_of(*known.chain);
  std::copy(key.begin(), key.end(), proof->key.begin());
  facts.proof = proof;
  std::shared_ptr<CertificateIdentity> made = kind_.make(std::move(facts));
  if (known.identity != nullptr && kind_.same(*known.identity, *made)) {
    proof = known.proof;
  } else {
    if (known.proof != nullptr) {
      known.proof->ended = true;
      known.proof->successor = made;
      has_ended_ = true;
    }
    known.proof = proof;
    known.identity = std::move(made);
  }
  proof->valid_until = until;
  proof->generation = generation_;
  known.from = now;
  first_end_ = std::min(first_end_, until);
}

void CertificateProofs::end(Known& known) noexcept {
  known.proof->ended = true;
  has_ended_ = true;
}

CertificateProofs::Book::iterator CertificateProofs::forget(Book::iterator at) {
  end(at->second);
  return known_.erase(at);
}

void CertificateProofs::judge(const std::string& key, std::int64_t now) {
  const auto found = known_.find(key);
  if (found == known_.end()) {
    return;
  }
  std::int64_t until = 0;
  CertificateIdentity facts = asked_->identify(*found->second.chain, now, &until);
  if (facts.valid) {
    take(found->second, std::move(facts), until, now);
  } else {
    forget(found);
  }
}

net::PeerVerdict CertificateProofs::current(const IdentityPtr& identity) {
  IdentityPtr now = identity;
  while (now->proof != nullptr && now->proof->ended && now->proof->successor != nullptr) {
    now = now->proof->successor;
  }
  if (now->proof == nullptr || !now->proof->ended || !now->valid) {
    return {std::move(now), false};
  }
  CertificateIdentity refused = *now;
  refused.valid = refused.from_client_ca = refused.from_request_header_ca = false;
  return {IdentityPtr(kind_.make(std::move(refused))), true};
}

void CertificateProofs::look() {
  const std::int64_t now = now_();
  const TimePoint at = loop_.now();
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(at - last_look_at_).count();
  const bool went_back = last_look_ != 0 && now < last_look_ + passed - kJump && now < last_look_;
  last_look_ = now;
  last_look_at_ = at;
  if (auto current = verifier_->current(); current != asked_) {
    asked_ = std::move(current);
    start_review();
  } else if (went_back) {
    start_review();
  }
  if (now >= first_end_) {
    end_overdue(now);
  }
  if (now >= sweep_at_ || now < sweep_at_ - kSweepEvery) {
    sweep_at_ = now + kSweepEvery;
    sweep(now, false);
  }
  tell();
}

void CertificateProofs::end_overdue(std::int64_t now) {
  first_end_ = INT64_MAX;
  for (auto at = known_.begin(); at != known_.end();) {
    if (now >= at->second.proof->valid_until) {
      at = forget(at);
      continue;
    }
    first_end_ = std::min(first_end_, at->second.proof->valid_until);
    ++at;
  }
}

/// Answers that no connection has; all of them when there are too many.
void CertificateProofs::sweep(std::int64_t now, bool all) {
  std::size_t unused = 0;
  for (auto at = known_.begin(); at != known_.end();) {
    const Known& known = at->second;
    const bool is_unused = known.identity.use_count() == 1 && known.proof.use_count() == 2;
    const bool old = now >= known.from + kLongest || now < known.from;
    if (is_unused && (all || old)) {
      at = known_.erase(at);
      continue;
    }
    unused += is_unused ? 1U : 0U;
    ++at;
  }
  if (!all && unused > kMostUnused) {
    sweep(now, true);
  }
}

void CertificateProofs::start_review() {
  ++generation_;
  waiting_.clear();
  sweep(now_(), true);
  for (const auto& [key, known] : known_) {
    waiting_.push_back(key);
  }
  per_slice_ = waiting_.size() / kSlices + 1;
  if (!waiting_.empty()) {
    review_timer_.start(kSlicePause, [this] { review_some(); });
  }
}

bool CertificateProofs::review_some() {
  const std::int64_t now = now_();
  const TimePoint stop = Clock::now() + kSlice;
  for (std::size_t i = 0; !waiting_.empty() && (i < per_slice_ || Clock::now() < stop); ++i) {
    const std::string key = std::move(waiting_.front());
    waiting_.pop_front();
    const auto found = known_.find(key);
    if (found != known_.end() && found->second.proof->generation != generation_) {
      judge(key, now);
    }
  }
  tell();
  if (!waiting_.empty()) {
    review_timer_.start(kSlicePause, [this] { review_some(); });
  }
  return !waiting_.empty();
}

void CertificateProofs::tell() {
  if (!std::exchange(has_ended_, false) || !ended_) {
    return;
  }
  // In a turn of its own: a connection that is being made may be what found out.
  loop_.post([weak = alive_.weak(), this] {
    if (weak) {
      ended_();
    }
  });
}

void CertificateProofs::arm() {
  if (known_.empty() || std::exchange(armed_, true)) {
    return;
  }
  look_timer_.start(kLook, [this] {
    armed_ = false;
    look();
    arm();
  });
}

}  // namespace kintsugi::auth
