#include "aggregation/watch/internal/key_index.h"

#include <utility>

namespace kintsugi::aggregation {
namespace {

std::string key_of(const ObjectFacts& facts) {
  std::string key;
  key.reserve(facts.cluster.size() + facts.ns.size() + facts.name.size() + 2);
  key += facts.cluster;
  key += '\n';
  key += facts.ns;
  key += '\n';
  key += facts.name;
  return key;
}

ObjectFacts facts_of(std::string_view key, const KeyIndex::Entry& entry) {
  ObjectFacts facts;
  const std::size_t ns = key.find('\n');
  const std::size_t name = key.find('\n', ns + 1);
  facts.cluster = key.substr(0, ns);
  facts.ns = key.substr(ns + 1, name - ns - 1);
  facts.name = key.substr(name + 1);
  facts.uid = entry.uid;
  facts.revision = entry.revision;
  return facts;
}

std::size_t cost(const std::string& key, const KeyIndex::Entry& entry) {
  constexpr std::size_t kNode = 48;
  return kNode + sizeof(KeyIndex::Entry) + sizeof(std::string) + key.size() + entry.uid.size() +
         entry.kept.size();
}

}  // namespace

void KeyIndex::put(const ObjectFacts& facts, std::string kept) {
  if (is_hidden(facts)) {
    return;
  }
  const auto [at, fresh] = entries_.try_emplace(key_of(facts));
  Entry& entry = at->second;
  bytes_ -= fresh ? 0 : cost(at->first, entry);
  entry.uid = facts.uid;
  entry.kept = std::move(kept);
  entry.revision = facts.revision;
  entry.seen = sweep_;
  bytes_ += cost(at->first, entry);
  if (fresh && names_ != nullptr) {
    names_->enter(facts, slot_);
  }
}

KeyIndex::Map::iterator KeyIndex::forget(Map::iterator at) {
  bytes_ -= cost(at->first, at->second);
  if (names_ != nullptr) {
    names_->leave(facts_of(at->first, at->second), slot_);
  }
  return entries_.erase(at);
}

void KeyIndex::erase(const ObjectFacts& facts) {
  std::string key = key_of(facts);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    forget(found);
  }
  if (filling_) {
    erased_bytes_ += key.size() + sizeof(std::string) + 32;
    erased_.insert(std::move(key));
  }
}

void KeyIndex::fill(const ObjectFacts& facts, std::string kept) {
  if (std::string key = key_of(facts); !entries_.contains(key) && !erased_.contains(key)) {
    put(facts, std::move(kept));
  }
}

void KeyIndex::end_fill() noexcept {
  filling_ = false;
  erased_.clear();
  erased_bytes_ = 0;
}

const KeyIndex::Entry* KeyIndex::find(const ObjectFacts& facts) const {
  const auto found = entries_.find(key_of(facts));
  return found == entries_.end() ? nullptr : &found->second;
}

KeyIndex::Change KeyIndex::meet(const ObjectFacts& facts) {
  const Entry* entry = find(facts);
  if (entry == nullptr) {
    return Change::kAdded;
  }
  if (entry->uid != facts.uid) {
    return Change::kReplaced;
  }
  return entry->revision == facts.revision ? Change::kNone : Change::kModified;
}

void KeyIndex::sweep(const std::function<void(const ObjectFacts&, const Entry&)>& gone) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.seen == sweep_) {
      ++at;
      continue;
    }
    gone(facts_of(at->first, at->second), at->second);
    at = forget(at);
  }
}

void KeyIndex::drain(const std::function<void(const ObjectFacts&, const Entry&)>& gone) {
  begin_sweep();
  sweep(gone);
}

void KeyIndex::drain_cluster(std::string_view cluster,
                             const std::function<void(const ObjectFacts&, const Entry&)>& gone) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    const ObjectFacts facts = facts_of(at->first, at->second);
    if (facts.cluster != cluster) {
      ++at;
      continue;
    }
    gone(facts, at->second);
    at = forget(at);
  }
}

void KeyIndex::each_of_cluster(
    std::string_view cluster,
    const std::function<void(const ObjectFacts&, const Entry&)>& call) const {
  for (const auto& [key, entry] : entries_) {
    if (const ObjectFacts facts = facts_of(key, entry); facts.cluster == cluster) {
      call(facts, entry);
    }
  }
}

}  // namespace kintsugi::aggregation
