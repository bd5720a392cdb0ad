#pragma once

#include <memory>
#include <string_view>

#include "http/handler.h"
#include "proxy/admin/admin.h"

namespace kintsugi::proxy {

struct ConsoleAsked;
struct ConsoleLink;
struct ViewerScope;

/// The console (docs/console.md): the page at /ui/ and what it asks at /ui/api/v1/. Threads: the
/// control loop's.
class Console final : public http::Handler {
 public:
  /// Questions of data loops that are being answered, live streams among them; more: 429.
  static constexpr std::size_t kMostAsked = 96;
  /// @param admin  must outlive it
  explicit Console(const AdminParams& admin);
  ~Console() override;
  /// Of the admin listener, which has decided who may ask: he sees everything.
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;
  /// @{ Of data loops; see ConsoleDoor.
  void ask(ConsoleAsked&& asked);
  void left(const ConsoleLink& link, Errc cause);
  void drained(const ConsoleLink& link);  /// @}

  [[nodiscard]] static bool has(std::string_view path) noexcept {
    return path == "/ui" || path.starts_with("/ui/");
  }
  /// Of those it has: everybody may see it.
  [[nodiscard]] static bool is_public(std::string_view path) noexcept {
    return !path.starts_with("/ui/api/");
  }

 private:
  using Answer = std::unique_ptr<http::RequestHandler>;
  [[nodiscard]] Answer answer(http::RequestHead head, http::ResponseStream& stream,
                              const ViewerScope& scope);
  [[nodiscard]] Answer answer_view(http::RequestHead head, http::ResponseStream& stream,
                                   std::string_view view, const krm::Query& query,
                                   const ViewerScope& scope);
  [[nodiscard]] Answer answer_explain(http::RequestHead head, http::ResponseStream& stream,
                                      const krm::Query& query);
  struct State;
  const AdminParams& admin_;
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::proxy
