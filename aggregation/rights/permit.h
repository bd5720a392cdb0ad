#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/asking/route.h"
#include "aggregation/rights/internal/review_book.h"
#include "auth/access_review.h"
#include "auth/authorizer.h"
#include "base/error.h"

namespace kintsugi::aggregation {

class Reviewer;

/// What a caller has to be allowed before it gets what the proxy reads with its own credential
/// (AGG-904).
struct ReviewPlan {
  struct Check {
    auth::Attributes attributes;
    auth::ReviewSelectors selectors = {};
    /// Allowed: so many of the checks behind it need not be. A denial counts for checks without.
    std::size_t spares = 0;
    /// Not asked but denied, for this reason.
    std::optional<std::string> fault = std::nullopt;
  };
  /// The last one is the read itself, those before let the caller impersonate.
  using Way = std::vector<Check>;
  /// In the order in which they are tried: what the first one that lets the caller impersonate says
  /// of the read is the decision.
  std::vector<Way> ways;
  /// The server that speaks for all members; nullopt: not known now. Empty: each for itself.
  std::function<std::optional<ReviewServer>()> judge;
  /// Name of who asks, for people.
  std::string caller;
  /// What the proxy's own credential gets is what any caller who is allowed the checks would get;
  /// empty: always.
  std::function<bool()> is_for_all;
};

/// What the rights at all members mean for a read that begins.
struct StartVerdict {
  Right right = Right::kUnknown;      ///< of the read; kUnknown: wait
  std::vector<std::size_t> left_out;  ///< kAllowed: those that it goes on without
  std::size_t cause = 0;              ///< kDenied: one that denies it
};
[[nodiscard]] StartVerdict judge_start(std::span<const Right> rights, bool partial);

/// One caller's rights for one merged read, as long as it lasts. Threads: its loop.
class Permit {
 public:
  class Holder {
   public:
    /// Some right is another one than before. Must not destroy the permit.
    virtual void on_rights() noexcept = 0;

   protected:
    ~Holder() = default;
  };
  /// @param members  of the route, whoever may read them
  Permit(std::shared_ptr<Reviewer> reviewer, std::shared_ptr<const ReviewPlan> plan,
         std::function<std::vector<Member>()> members, bool partial);
  ~Permit();
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

  void hold(Holder* holder) noexcept { holder_ = holder; }
  /// Finds out who is a member now, and asks what has not been asked yet.
  void update();
  /// From now on changes of roles and bindings are followed.
  void keep();

  struct Start {
    Right right = Right::kUnknown;
    Error error{Errc::kForbidden};  ///< kDenied, kUnavailable
  };
  /// Whether the read may begin; what it goes on without is in left_out() then.
  [[nodiscard]] Start begin();
  struct LeftOut {
    Member member;
    std::string cause;
  };
  [[nodiscard]] const std::vector<LeftOut>& left_out() const noexcept { return left_out_; }
  [[nodiscard]] bool leaves_out(const Member& member) const noexcept;

  /// As of the last update().
  [[nodiscard]] const std::vector<Member>& members() const noexcept { return members_; }
  [[nodiscard]] Right right_of(const Member& member) const;
  /// The 403 of a member that denies it.
  [[nodiscard]] Error denial(const Member& member) const;
  /// False: from now on the shards have to judge the caller themselves.
  [[nodiscard]] bool is_for_all() const { return !plan_->is_for_all || plan_->is_for_all(); }
  [[nodiscard]] bool partial() const noexcept { return partial_; }
  [[nodiscard]] const std::string& caller() const noexcept { return plan_->caller; }

 private:
  /// One check at one server.
  struct Line final : ReviewBook::Follower {
    void on_right(Right now, std::string_view why) noexcept override {
      right = now;
      reason = why;
      if (owner->holder_ != nullptr) {
        owner->holder_->on_rights();
      }
    }
    Permit* owner = nullptr;
    ReviewBook::Ticket ticket = 0;
    Right right = Right::kUnknown;
    std::string reason;
  };
  using Lines = std::vector<std::unique_ptr<Line>>;  // by check
  using Ways = std::vector<Lines>;                   // those that were needed so far

  [[nodiscard]] std::optional<ReviewServer> server_of(const Member& member) const;
  [[nodiscard]] const Ways* ways_of(const Member& member) const;
  /// Whether this way lets the caller impersonate.
  [[nodiscard]] Right leads(std::size_t way, const Lines& lines) const;
  void begin_way(const ReviewServer& server, Ways& ways);
  void drop(const ReviewServer& server, const Ways& ways) noexcept;

  std::weak_ptr<Reviewer> reviewer_;
  std::shared_ptr<const ReviewPlan> plan_;
  std::function<std::vector<Member>()> find_members_;
  std::vector<Member> members_;
  std::optional<ReviewServer> judge_;
  std::vector<std::vector<std::string>> bodies_;  // of the reviews, by way
  std::map<ReviewServer, Ways> ways_;
  std::vector<LeftOut> left_out_;
  Holder* holder_ = nullptr;
  bool partial_, keeps_ = false;
};

}  // namespace kintsugi::aggregation
