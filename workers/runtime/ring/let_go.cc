#include "workers/runtime/ring/let_go.h"

#include <algorithm>
#include <utility>

#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {

std::string let_go_text(const std::vector<LetGo>& all) {
  std::string out;
  for (const LetGo& one : all) {
    out.append(out.empty() ? "" : " ").append(one.cluster).append("@").append(one.question);
  }
  return out;
}

std::vector<LetGo> parse_let_go(std::string_view text) {
  std::vector<LetGo> out;
  while (!text.empty() && out.size() < kMostLetGo) {
    const std::string_view one = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t at = one.rfind('@');
    if (at != one.npos && at > 0 && at + 1 < one.size()) {
      out.push_back({std::string(one.substr(0, at)), std::string(one.substr(at + 1))});
    }
  }
  return out;
}

namespace {

bool has(const std::vector<LetGo>& all, const LetGo& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// The Lease as it is, with what is asked in place of what was answered.
LeaseWrite asking(const LeaseRecord& lease, const LetGo& asked) {
  const std::vector<LetGo> gone = parse_let_go(lease.annotation(kLetGoneAnnotation));
  std::vector<LetGo> all = parse_let_go(lease.annotation(kLetGoAnnotation));
  std::erase_if(all, [&gone](const LetGo& one) { return has(gone, one); });
  all.push_back(asked);
  LeaseWrite out;
  out.name = lease.name;
  out.rv = lease.rv;
  out.uid = lease.uid;
  out.holder = lease.holder;
  out.duration_s = lease.duration_s;
  out.transitions = lease.transitions;
  out.acquire_time = lease.acquire_time;
  out.annotations = lease.annotations;
  const auto place = std::lower_bound(
      out.annotations.begin(), out.annotations.end(), kLetGoAnnotation,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  std::string text = let_go_text(all);
  if (place != out.annotations.end() && place->first == kLetGoAnnotation) {
    place->second = std::move(text);
  } else {
    out.annotations.emplace(place, kLetGoAnnotation, std::move(text));
  }
  return out;
}

}  // namespace

bool LetGoFsm::is_free(const LeaseRecord& lease, Member& member, TimePoint now) const {
  if (lease.rv != member.rv) {
    member.rv = lease.rv;
    member.since = now;
  }
  if (lease.holder.empty() || now - member.since >= lease.patience(params_.duration)) {
    return true;
  }
  // Only what was answered is taken away.
  return member.taken && (!has(parse_let_go(lease.annotation(kLetGoAnnotation)), params_.asked) ||
                          has(parse_let_go(lease.annotation(kLetGoneAnnotation)), params_.asked));
}

std::vector<LeaseWrite> LetGoFsm::on_leases(const std::vector<LeaseRecord>& leases, TimePoint now) {
  std::vector<LeaseWrite> out;
  bool all = true;
  for (const LeaseRecord& lease : leases) {
    if (member_identity(params_.role, lease.name).empty()) {
      continue;
    }
    Member& member = members_[lease.uid];
    if (is_free(lease, member, now)) {
      continue;
    }
    all = false;
    if (!member.taken) {
      out.push_back(asking(lease, params_.asked));
    }
  }
  gave_up_ = !all && now - began_ >= 2 * params_.duration;
  done_ = all || gave_up_;
  return out;
}

void LetGoFsm::on_unreadable(TimePoint now) { done_ = now - began_ >= params_.duration; }

}  // namespace kintsugi::workers
