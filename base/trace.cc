#include "base/trace.h"

#include <memory>
#include <mutex>
#include <optional>

#include "base/spsc_ring.h"

namespace kintsugi {

namespace trace_detail {
std::atomic<bool> on = false;
}

namespace {

constexpr std::size_t kRing = 1'024;  // spans of a thread

struct Book {
  std::mutex mutex;
  std::vector<std::unique_ptr<SpscRing<Span>>> rings;  // of threads that were, too: they are few
  std::atomic<std::uint64_t> recorded = 0, dropped = 0, sent = 0, failed = 0;
};

/// Lives as long as the process: threads may end after everything else.
Book& book() {
  static Book* const made = new Book;
  return *made;
}

SpscRing<Span>& own_ring() {
  thread_local SpscRing<Span>* ring = nullptr;
  if (ring == nullptr) {
    Book& all = book();
    const std::lock_guard lock(all.mutex);
    all.rings.push_back(std::make_unique<SpscRing<Span>>(kRing));
    ring = all.rings.back().get();
  }
  return *ring;
}

std::atomic<std::uint32_t> share = 0;
thread_local const TraceParent* current = nullptr;

}  // namespace

void set_trace_share(std::uint32_t per_million) noexcept { share = per_million; }
std::uint32_t trace_share() noexcept { return share; }

const TraceParent* current_trace() noexcept { return current; }
TraceScope::TraceScope(const TraceParent* parent) noexcept
    : before_(std::exchange(current, parent)) {}
TraceScope::~TraceScope() { current = before_; }

std::string known_method(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}) {
    if (method == known) {
      return std::string(known);
    }
  }
  return "_OTHER";
}

void set_tracing(bool on) noexcept { trace_detail::on.store(on, std::memory_order_relaxed); }

void record_span(Span span) noexcept {
  const bool has_room = own_ring().push(std::move(span));
  (has_room ? book().recorded : book().dropped).fetch_add(1, std::memory_order_relaxed);
}

std::vector<Span> take_spans(std::size_t most) {
  std::vector<SpscRing<Span>*> rings;
  {
    Book& all = book();
    const std::lock_guard lock(all.mutex);
    for (const auto& ring : all.rings) {
      rings.push_back(ring.get());
    }
  }
  std::vector<Span> out;
  for (bool found = true; found && out.size() < most;) {  // in turns: no thread keeps others out
    found = false;
    for (SpscRing<Span>* ring : rings) {
      std::optional<Span> span = out.size() < most ? ring->pop() : std::nullopt;
      if (span) {
        out.push_back(std::move(*span));
        found = true;
      }
    }
  }
  return out;
}

void count_spans_sent(std::size_t count) noexcept { book().sent += count; }
void count_spans_failed(std::size_t count) noexcept { book().failed += count; }

TraceStats trace_stats() noexcept {
  const Book& all = book();
  return {all.recorded, all.dropped, all.sent, all.failed};
}

}  // namespace kintsugi
