#pragma once

#include <memory>
#include <string_view>

#include "http/handler.h"
#include "proxy/admin/admin.h"

namespace kintsugi::proxy {

/// The console (docs/console.md): the page at /ui/ and what it asks at /ui/api/v1/. Who may ask is
/// decided before. Threads: the control loop's.
class Console final : public http::Handler {
 public:
  /// @param admin  must outlive it
  explicit Console(const AdminParams& admin);
  ~Console() override;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

  [[nodiscard]] static bool has(std::string_view path) noexcept;
  /// Of those it has: everybody may see it.
  [[nodiscard]] static bool is_public(std::string_view path) noexcept;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> answer_view(http::RequestHead head,
                                                                  http::ResponseStream& stream,
                                                                  std::string_view view,
                                                                  const krm::Query& query);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> answer_explain(http::RequestHead head,
                                                                     http::ResponseStream& stream,
                                                                     const krm::Query& query);
  struct State;
  const AdminParams& admin_;
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::proxy
