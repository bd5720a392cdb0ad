#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/handler.h"
#include "proxy/routing/request.h"

namespace re2 {
class RE2;
}

namespace kintsugi::proxy {

/// Lets browsers of listed origins read answers (FP-147, AM-557). An origin that
/// a pattern is found in gets the Access-Control fields with every answer but those of probes, and
/// 204 to OPTIONS; for all other requests nothing changes. Threads: its loop. Cost without an
/// Origin field: one look-up.
class CorsHandler final : public RoutedHandler {
 public:
  /// @param origins  regular expressions that is_origin_pattern() took; empty: nobody is let in.
  /// @param inner    answers; must outlive it.
  /// @param console  /ui is the console, which no other origin may read.
  CorsHandler(const std::vector<std::string>& origins, RoutedHandler& inner, bool console = false);
  ~CorsHandler() override;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] bool allows(const http::RequestHead& head) const;

  std::vector<std::unique_ptr<re2::RE2>> origins_;
  RoutedHandler& inner_;
  const bool console_;
};

/// A regular expression (RE2's syntax, as Go's).
[[nodiscard]] bool is_origin_pattern(const std::string& text);

}  // namespace kintsugi::proxy
