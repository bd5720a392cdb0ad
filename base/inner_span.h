#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/trace.h"

namespace kintsugi {

/// A part of the work for a request that is recorded, below the span that its `traceparent` names
/// (OP-503). It ends with end(); one that is left before that was cancelled. Threads: one at a
/// time.
class InnerSpan {
 public:
  /// @param trace_parent  the request's header; anything
  /// @param name          of static life
  /// @returns null where the request is not recorded. Cost while nothing is: a load.
  [[nodiscard]] static std::shared_ptr<InnerSpan> begin(std::string_view trace_parent,
                                                        const char* name);
  explicit InnerSpan(Span span) : span_(std::move(span)) {}
  ~InnerSpan() { end("cancelled"); }
  InnerSpan(const InnerSpan&) = delete;
  InnerSpan& operator=(const InnerSpan&) = delete;

  /// The first one counts. @param fault  "": it went well; a fixed text
  void end(std::string_view fault = {}) noexcept;
  void note(std::string_view key, std::int64_t value) { span_.attributes.emplace_back(key, value); }
  /// As if it had never begun.
  void drop() noexcept { ended_ = true; }

 private:
  Span span_;
  bool ended_ = false;
};

}  // namespace kintsugi
