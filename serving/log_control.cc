#include "serving/log_control.h"

#include <optional>
#include <string>

#include "base/log_level.h"
#include "base/strings.h"
#include "krm/json.h"
#include "serving/answer.h"

namespace kintsugi::serving {
namespace {

/// "30s", "10m", "2h"; up to a day.
std::optional<Duration> parse_period(std::string_view text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const char unit = text.back();
  const std::int64_t each = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  constexpr std::int64_t kMost = 24 * 3600;
  text.remove_suffix(1);
  const auto number = parse_decimal<std::uint32_t>(text);
  const std::int64_t total = each * static_cast<std::int64_t>(number.value_or(0));
  if (total < 1 || total > kMost) {
    return std::nullopt;
  }
  return seconds(total);
}

}  // namespace

std::unique_ptr<http::RequestHandler> LogControl::on_request(const http::RequestHead& head,
                                                             http::ResponseStream& stream,
                                                             const krm::Query& query) {
  if (head.method == "PUT") {
    const std::string_view name = query.get("level").value_or("");
    const std::optional<LogLevel> level = parse_log_level(name);
    if (!level) {
      return answer_text(
          head, stream, 400,
          "level: \"" + std::string(name) + "\" is none of error, warn, info, debug\n");
    }
    const auto said = query.get("for");
    const std::optional<Duration> period = parse_period(said.value_or(""));
    if (said && !period) {
      return answer_text(
          head, stream, 400,
          "for: \"" + std::string(*said) + "\" is no time from 1s to 24h, such as 10m\n");
    }
    if (until_ == TimePoint{}) {
      after_ = log_level();
    }
    timer_.cancel();
    until_ = period ? Clock::now() + *period : TimePoint{};
    if (period) {
      timer_.start(*period, [this] {
        until_ = {};
        set_log_level(after_);
        log_info("the log's level is what it was before", {{"log_level", level_name(after_)}});
      });
    }
    set_log_level(*level);
    log_info("the log's level was changed",
             {{"log_level", level_name(*level)}, {"for", said.value_or("")}});
  }
  krm::Json out = krm::Json::object({{"level", std::string(level_name(log_level()))}});
  if (until_ != TimePoint{}) {
    out["secondsLeft"] = static_cast<std::int64_t>((until_ - Clock::now()) / seconds(1));
    out["after"] = std::string(level_name(after_));
  }
  return answer_json(head, stream, 200, out.dump_pretty());
}

}  // namespace kintsugi::serving
