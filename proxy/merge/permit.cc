#include "proxy/merge/permit.h"

#include <algorithm>
#include <set>

#include "proxy/merge/reviewer.h"
#include "proxy/merge/shard_answer.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kNoAnswer = "the rights there cannot be checked now";

bool has(std::span<const Right> rights, Right right) {
  return std::find(rights.begin(), rights.end(), right) != rights.end();
}

}  // namespace

StartVerdict judge_start(std::span<const Right> rights, bool partial) {
  StartVerdict out;
  const auto denied = std::find(rights.begin(), rights.end(), Right::kDenied);
  out.cause = static_cast<std::size_t>(denied - rights.begin());
  if (!partial) {
    out.right = has(rights, Right::kDenied)        ? Right::kDenied
                : has(rights, Right::kUnknown)     ? Right::kUnknown
                : has(rights, Right::kUnavailable) ? Right::kUnavailable
                                                   : Right::kAllowed;
    return out;
  }
  if (has(rights, Right::kUnknown)) {
    return out;
  }
  const bool none = !rights.empty() && !has(rights, Right::kAllowed);
  out.right = !none                              ? Right::kAllowed
              : has(rights, Right::kUnavailable) ? Right::kUnavailable
                                                 : Right::kDenied;
  for (std::size_t i = 0; !none && i < rights.size(); ++i) {
    if (rights[i] != Right::kAllowed) {
      out.left_out.push_back(i);
    }
  }
  return out;
}

Permit::Permit(std::shared_ptr<Reviewer> reviewer, std::shared_ptr<const ReviewPlan> plan,
               std::function<std::vector<Member>()> members, bool partial)
    : reviewer_(std::move(reviewer)),
      plan_(std::move(plan)),
      find_members_(std::move(members)),
      partial_(partial) {
  for (const ReviewPlan::Check& check : plan_->checks) {
    bodies_.push_back(access_review(check.attributes, check.selectors).dump());
  }
}

Permit::~Permit() {
  for (auto& [server, lines] : lines_) {
    drop(server, lines);
  }
}

void Permit::drop(const ReviewServer& server, const Lines& lines) noexcept {
  const std::shared_ptr<Reviewer> reviewer = reviewer_.lock();
  if (reviewer == nullptr) {
    return;
  }
  for (const auto& line : lines) {
    reviewer->unfollow(line->ticket);
  }
  if (keeps_) {
    reviewer->release_grants(server);
  }
}

std::optional<ReviewServer> Permit::server_of(const Member& member) const {
  return plan_->judge ? judge_ : ReviewServer{member.id, ""};
}

const Permit::Lines* Permit::lines_of(const Member& member) const {
  const auto server = server_of(member);
  const auto found = server ? lines_.find(*server) : lines_.end();
  return found == lines_.end() ? nullptr : &found->second;
}

void Permit::update() {
  const std::shared_ptr<Reviewer> reviewer = reviewer_.lock();
  if (reviewer == nullptr) {
    return;
  }
  members_ = find_members_();
  if (auto judge = plan_->judge ? plan_->judge() : std::nullopt) {
    judge_ = std::move(judge);  // else the last one that was known
  }
  std::set<ReviewServer> needed;
  for (const Member& member : members_) {
    if (const auto server = server_of(member)) {
      needed.insert(*server);
    }
  }
  std::erase_if(lines_, [&](const auto& one) {
    if (needed.contains(one.first)) {
      return false;
    }
    drop(one.first, one.second);
    return true;
  });
  for (const ReviewServer& server : needed) {
    if (lines_.contains(server)) {
      continue;
    }
    Lines& lines = lines_[server];
    for (const std::string& body : bodies_) {
      Line& line = *lines.emplace_back(std::make_unique<Line>());
      line.owner = this;
      ReviewBook::Known known = reviewer->follow(server, body, line);
      line.ticket = known.ticket;
      line.right = known.right;
      line.reason = std::move(known.reason);
    }
    if (keeps_) {
      reviewer->hold_grants(server);
    }
  }
}

void Permit::keep() {
  const std::shared_ptr<Reviewer> reviewer = reviewer_.lock();
  if (reviewer != nullptr && !std::exchange(keeps_, true)) {
    for (const auto& [server, lines] : lines_) {
      reviewer->hold_grants(server);
    }
  }
}

Right Permit::right_of(const Member& member) const {
  const Lines* lines = lines_of(member);
  if (lines == nullptr) {
    return Right::kUnavailable;
  }
  std::vector<Right> rights;
  for (const auto& line : *lines) {
    rights.push_back(line->right);
  }
  return judge_start(rights, false).right;
}

Error Permit::denial(const Member& member) const {
  auth::Decision decision;
  decision.reason = "access denied";
  const auth::Attributes* refused = &plan_->checks.back().attributes;
  if (const Lines* lines = lines_of(member)) {
    for (std::size_t i = 0; i < lines->size(); ++i) {
      if ((*lines)[i]->right == Right::kDenied) {
        refused = &plan_->checks[i].attributes;
        decision.reason = (*lines)[i]->reason.empty() ? decision.reason : (*lines)[i]->reason;
        break;
      }
    }
  }
  if (!plan_->judge) {
    decision.reason = "shard " + member.name + ": " + decision.reason;
  }
  return auth::denied(*refused, decision);
}

Permit::Start Permit::begin() {
  std::vector<Right> rights;
  for (const Member& member : members_) {
    rights.push_back(right_of(member));
  }
  const StartVerdict verdict = judge_start(rights, partial_);
  Start out;
  out.right = verdict.right;
  left_out_.clear();
  if (verdict.right == Right::kDenied) {
    out.error = denial(members_[verdict.cause]);
  } else if (verdict.right == Right::kUnavailable) {
    std::vector<std::pair<std::string, std::string>> causes;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (rights[i] == Right::kUnavailable) {
        causes.emplace_back(members_[i].name, kNoAnswer);
      }
    }
    out.error = shards_unavailable(causes, true);
  }
  for (const std::size_t i : verdict.left_out) {
    left_out_.push_back(
        {members_[i], rights[i] == Right::kDenied ? "it answers 403" : std::string(kNoAnswer)});
  }
  return out;
}

bool Permit::leaves_out(const Member& member) const noexcept {
  return std::any_of(left_out_.begin(), left_out_.end(), [&member](const LeftOut& one) {
    return one.member.slot == member.slot && one.member.id == member.id;
  });
}

}  // namespace kintsugi::proxy
