#include "http/guarded_answer.h"

namespace kintsugi::http {
namespace {

constexpr std::string_view kBody =
    R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
    R"("message":"Internal error occurred","reason":"InternalError","code":500})"
    "\n";

class Swallow final : public RequestHandler {
 public:
  explicit Swallow(ResponseStream& stream) : stream_(stream) {}
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override {}

 private:
  ResponseStream& stream_;
};

}  // namespace

std::unique_ptr<RequestHandler> answer_internal_fault(ResponseStream& stream,
                                                      bool head_only) noexcept {
  auto handler = std::make_unique<Swallow>(stream);
  if (stream.unsent_bytes() > 0) {
    stream.reset(Errc::kInternal);
    return handler;
  }
  HeaderList headers;
  headers.add("content-type", "application/json");
  headers.add("x-content-type-options", "nosniff");
  headers.add("content-length", std::to_string(kBody.size()));
  stream.send_head(500, headers, head_only);
  if (!head_only) {
    stream.send_data(kBody, true);
  }
  return handler;
}

}  // namespace kintsugi::http
