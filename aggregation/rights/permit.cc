#include "aggregation/rights/permit.h"

#include <algorithm>
#include <set>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/rights/reviewer.h"

namespace kintsugi::aggregation {
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
  for (const ReviewPlan::Way& way : plan_->ways) {
    std::vector<std::string>& bodies = bodies_.emplace_back();
    for (const ReviewPlan::Check& check : way) {
      bodies.push_back(auth::access_review(check.attributes, check.selectors).dump());
    }
  }
}

Permit::~Permit() {
  for (auto& [server, ways] : ways_) {
    drop(server, ways);
  }
}

void Permit::drop(const ReviewServer& server, const Ways& ways) noexcept {
  const std::shared_ptr<Reviewer> reviewer = reviewer_.lock();
  if (reviewer == nullptr) {
    return;
  }
  for (const Lines& lines : ways) {
    for (const auto& line : lines) {
      reviewer->unfollow(line->ticket);
    }
  }
  if (keeps_) {
    reviewer->release_grants(server);
  }
}

std::optional<ReviewServer> Permit::server_of(const Member& member) const {
  return plan_->judge ? judge_ : ReviewServer{member.id, ""};
}

const Permit::Ways* Permit::ways_of(const Member& member) const {
  const auto server = server_of(member);
  const auto found = server ? ways_.find(*server) : ways_.end();
  return found == ways_.end() ? nullptr : &found->second;
}

Right Permit::leads(std::size_t way, const Lines& lines) const {
  std::vector<Right> rights;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const Right right = lines[i]->right;
    if (const std::size_t spares = plan_->ways[way][i].spares; spares == 0) {
      rights.push_back(right);
    } else if (right == Right::kAllowed) {
      i += spares;
    } else if (right != Right::kDenied) {
      rights.push_back(right);
    }
  }
  return judge_start(rights, false).right;
}

void Permit::begin_way(const ReviewServer& server, Ways& ways) {
  const std::size_t way = ways.size();
  Lines& lines = ways.emplace_back();
  for (std::size_t i = 0; i < bodies_[way].size(); ++i) {
    Line& line = *lines.emplace_back(std::make_unique<Line>());
    line.owner = this;
    if (const auto& fault = plan_->ways[way][i].fault) {
      line.right = Right::kDenied;
      line.reason = *fault;
    } else if (const auto reviewer = reviewer_.lock()) {
      ReviewBook::Known known = reviewer->follow(server, bodies_[way][i], line);
      line.ticket = known.ticket;
      line.right = known.right;
      line.reason = std::move(known.reason);
    }
  }
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
  std::erase_if(ways_, [&](const auto& one) {
    if (needed.contains(one.first)) {
      return false;
    }
    drop(one.first, one.second);
    return true;
  });
  for (const ReviewServer& server : needed) {
    const bool is_new = !ways_.contains(server);
    Ways& ways = ways_[server];
    while (ways.size() < bodies_.size() &&
           (ways.empty() || leads(ways.size() - 1, ways.back()) == Right::kDenied)) {
      begin_way(server, ways);
    }
    if (keeps_ && is_new) {
      reviewer->hold_grants(server);
    }
  }
}

void Permit::keep() {
  const std::shared_ptr<Reviewer> reviewer = reviewer_.lock();
  if (reviewer != nullptr && !std::exchange(keeps_, true)) {
    for (const auto& [server, ways] : ways_) {
      reviewer->hold_grants(server);
    }
  }
}

Right Permit::right_of(const Member& member) const {
  const Ways* ways = ways_of(member);
  if (ways == nullptr) {
    return Right::kUnavailable;
  }
  for (std::size_t i = 0; i < ways->size(); ++i) {
    const Lines& lines = (*ways)[i];
    if (const Right right = leads(i, lines); right == Right::kAllowed) {
      return lines.back()->right;
    } else if (right != Right::kDenied) {
      return right;
    }
  }
  return ways->size() < bodies_.size() ? Right::kUnknown : Right::kDenied;
}

Error Permit::denial(const Member& member) const {
  auth::Decision decision;
  decision.reason = "access denied";
  const auth::Attributes* refused = &plan_->ways.front().back().attributes;
  if (const Ways* ways = ways_of(member)) {
    // Of the way that the read went, else of the first that could have been.
    std::size_t way = 0;
    while (way < ways->size() && leads(way, (*ways)[way]) != Right::kAllowed) {
      ++way;
    }
    const bool leads_there = way < ways->size();
    way = leads_there ? way : 0;
    const ReviewPlan::Way& checks = plan_->ways[way];
    for (std::size_t i = leads_there ? checks.size() - 1 : 0; i < checks.size(); ++i) {
      const Line& line = *(*ways)[way][i];
      if (line.right == Right::kDenied && checks[i].spares == 0) {
        refused = &checks[i].attributes;
        decision.reason = line.reason.empty() ? decision.reason : line.reason;
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

}  // namespace kintsugi::aggregation
