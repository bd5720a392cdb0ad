#include "auth/token_proofs.h"

#include <openssl/sha.h>

#include <algorithm>
#include <random>
#include <utility>

#include "auth/jwt.h"
#include "base/time.h"

namespace kintsugi::auth {
namespace {

constexpr Duration kLook = milliseconds(500);
constexpr std::size_t kLooks = 20;  // all are asked about again within so many

std::array<unsigned char, 32> digest_of(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

std::int64_t expiry_of(const Bearer& token) {
  const Jwt* const jwt = token.jwt();
  if (jwt == nullptr) {
    return INT64_MAX;
  }
  const krm::Json* exp = jwt->claims.find("exp");
  if (exp == nullptr || !exp->is_number()) {
    return INT64_MAX;
  }
  constexpr double kFar = 1e15;
  return exp->is_integer() ? exp->as_integer()
                           : static_cast<std::int64_t>(std::clamp(exp->as_double(), 0.0, kFar));
}

TokenProofs::TokenProofs(net::Loop& loop, Ask ask, Limits limits, WallClock now)
    : loop_(loop),
      ask_(std::move(ask)),
      limits_(limits),
      now_(now ? std::move(now) : WallClock([] { return unix_seconds(); })),
      timer_(loop) {}

TokenProofs::~TokenProofs() = default;

std::shared_ptr<Proof> TokenProofs::begin() const {
  auto proof = std::make_shared<Proof>();
  proof->method = Proof::Method::kToken;
  proof->generation = generation_;
  return proof;
}

Duration TokenProofs::pause() const {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<Duration::rep> pick(limits_.every.count() * 4 / 5,
                                                    limits_.every.count() * 6 / 5);
  return Duration(pick(random));
}

void TokenProofs::follow(const std::shared_ptr<Proof>& proof, const Bearer& token,
                         std::string_view cluster, const UserInfo& user) {
  proof->key = digest_of(token.text());
  proof->cluster = cluster;
  const auto digest = digest_of(std::string(cluster) + '\n' + token.text());
  std::string key(reinterpret_cast<const char*>(digest.data()), digest.size());
  const auto [found, added] = known_.try_emplace(std::move(key));
  Known& known = found->second;
  if (added) {
    known.token = Secret::copy_of(token.text());
    known.cluster = cluster;
    known.user = user;
    known.valid_until = expiry_of(token);
    known.generation = proof->generation;
    known.answered = loop_.now();
    known.next = loop_.now() + pause();
  }
  proof->valid_until = known.valid_until;
  known.proofs.push_back(proof);
  arm();
}

void TokenProofs::ask_all() { ++generation_; }

void TokenProofs::look() {
  const std::int64_t now = now_();
  const TimePoint at = loop_.now();
  const std::size_t most_early = std::max(limits_.per_look, known_.size() / kLooks + 1);
  std::size_t early = 0;
  std::vector<std::string> due;
  for (auto entry = known_.begin(); entry != known_.end();) {
    Known& known = entry->second;
    std::erase_if(known.proofs, [](const auto& proof) { return proof.expired(); });
    if (now >= known.valid_until || at - known.answered >= limits_.patience + limits_.every * 2) {
      end(known);
    }
    if (known.proofs.empty()) {
      entry = known_.erase(entry);
      continue;
    }
    const bool is_early = known.generation != generation_ && early < most_early;
    if (!known.asked && (is_early || at >= known.next)) {
      early += is_early ? 1U : 0U;
      due.push_back(entry->first);
    }
    ++entry;
  }
  for (const std::string& key : due) {
    if (const auto found = known_.find(key); found != known_.end()) {
      ask(key, found->second);
    }
  }
  tell();
}

void TokenProofs::ask(const std::string& key, Known& known) {
  known.asked = true;
  known.next = loop_.now() + pause();
  const Secret token = known.token;  // the answer may end it
  const std::string cluster = known.cluster;
  ask_(token.view(), cluster,
       [this, weak = alive_.weak(), key,
        generation = generation_](const Expected<std::optional<UserInfo>>& result) {
         if (weak) {
           answer(key, generation, result);
         }
       });
}

void TokenProofs::answer(const std::string& key, std::uint64_t generation,
                         const Expected<std::optional<UserInfo>>& result) {
  const auto found = known_.find(key);
  if (found == known_.end()) {
    return;
  }
  Known& known = found->second;
  known.asked = false;
  if (!result && result.error().code() != Errc::kUnauthorized &&
      loop_.now() - known.answered < limits_.patience) {
    known.next = std::min(known.next, loop_.now() + limits_.every / 8);
    known.generation = generation;
    return;  // it cannot be told now
  }
  if (!result || !*result || !(**result == known.user)) {
    end(known);
    known_.erase(found);
    tell();
    return;
  }
  known.answered = loop_.now();
  known.generation = generation;
}

void TokenProofs::end(Known& known) {
  for (const std::weak_ptr<Proof>& weak : known.proofs) {
    if (const std::shared_ptr<Proof> proof = weak.lock()) {
      proof->ended = true;
      has_ended_ = true;
    }
  }
  known.proofs.clear();
}

void TokenProofs::tell() {
  if (!std::exchange(has_ended_, false) || !ended_) {
    return;
  }
  loop_.post([weak = alive_.weak(), this] {
    if (weak) {
      ended_();
    }
  });
}

void TokenProofs::arm() {
  if (known_.empty() || std::exchange(armed_, true)) {
    return;
  }
  timer_.start(kLook, [this] {
    armed_ = false;
    look();
    arm();
  });
}

}  // namespace kintsugi::auth
