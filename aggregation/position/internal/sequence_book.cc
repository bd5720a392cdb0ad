#include "aggregation/position/internal/sequence_book.h"

#include <algorithm>
#include <utility>

#include "aggregation/position/sequence_journal.h"

namespace kintsugi::aggregation {
namespace {

/// Of the heap, about.
template <class Entry>
std::size_t size_of(const Entry& entry) noexcept {
  return sizeof(Entry) + entry.vector.components.size() * sizeof(std::uint64_t);
}

}  // namespace

void SequenceBook::begin(std::uint32_t epoch, std::uint64_t counter) noexcept {
  next_.store(sequence_number(epoch, counter));
}

void SequenceBook::keep_in(std::shared_ptr<SequenceJournal> journal) {
  journal_ = std::move(journal);
}

std::size_t SequenceBook::stripe_of(const ScopeId& scope) noexcept {
  return scope.empty() ? 0 : static_cast<unsigned char>(scope.front()) % kStripes;
}

void SequenceBook::drop_front(Ring& ring) noexcept {
  bytes_ -= size_of(ring.front());
  --vectors_;
  ring.pop_front();
}

void SequenceBook::add(Stripe& stripe, const ScopeId& scope, Entry entry) {
  Ring& own = stripe.rings[scope];
  const TimePoint now = entry.when;
  bytes_ += size_of(entry);
  ++vectors_;
  own.push_back(std::move(entry));
  while (own.size() > limits_.least && own.front().when + limits_.age < now) {
    drop_front(own);
  }
  while (bytes_.load() > limits_.bytes) {
    const auto oldest = std::min_element(
        stripe.rings.begin(), stripe.rings.end(),
        [](const auto& a, const auto& b) { return a.second.front().when < b.second.front().when; });
    Ring& ring = oldest->second;
    if (&ring == &own && own.size() == 1) {
      break;  // other stripes hold the rest
    }
    drop_front(ring);
    if (ring.empty()) {
      stripe.rings.erase(oldest);
    }
  }
}

void SequenceBook::restore(SequenceRecord record, TimePoint now) {
  Stripe& stripe = stripes_[stripe_of(record.scope)];
  const std::lock_guard lock(stripe.mutex);
  const auto ring = stripe.rings.find(record.scope);
  if (ring != stripe.rings.end() && ring->second.back().number >= record.number) {
    return;
  }
  const ScopeId scope = std::move(record.scope);
  add(stripe, scope, {record.number, now, {record.generation, std::move(record.components)}});
}

std::uint64_t SequenceBook::mint(const ScopeId& scope, std::uint32_t generation,
                                 const std::vector<std::uint64_t>& components, TimePoint now) {
  Stripe& stripe = stripes_[stripe_of(scope)];
  const std::lock_guard lock(stripe.mutex);
  if (const auto ring = stripe.rings.find(scope); ring != stripe.rings.end()) {
    const Entry& last = ring->second.back();
    if (last.vector.generation == generation && last.vector.components == components) {
      return last.number;
    }
  }
  const std::uint64_t number = next_.fetch_add(1);
  ++minted_;
  if (journal_ != nullptr) {
    journal_->append({scope, number, generation, components});
  }
  add(stripe, scope, {number, now, {generation, components}});
  return number;
}

std::optional<SequenceBook::Vector> SequenceBook::find(const ScopeId& scope,
                                                       std::uint64_t number) const {
  const Stripe& stripe = stripes_[stripe_of(scope)];
  const std::lock_guard lock(stripe.mutex);
  const auto ring = stripe.rings.find(scope);
  if (ring == stripe.rings.end()) {
    return std::nullopt;
  }
  const auto entry =
      std::lower_bound(ring->second.begin(), ring->second.end(), number,
                       [](const Entry& one, std::uint64_t wanted) { return one.number < wanted; });
  if (entry == ring->second.end() || entry->number != number) {
    return std::nullopt;
  }
  return entry->vector;
}

SequenceBook::Stats SequenceBook::stats() const {
  Stats out;
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    out.scopes += stripe.rings.size();
  }
  out.vectors = vectors_.load();
  out.bytes = bytes_.load();
  out.minted = minted_.load();
  return out;
}

}  // namespace kintsugi::aggregation
