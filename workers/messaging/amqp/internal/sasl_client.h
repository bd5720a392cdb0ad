#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace kintsugi::workers {

/// The client's side of AMQP's SASL layer (part 5.3 of the standard): ANONYMOUS, EXTERNAL or PLAIN,
/// frame by frame. Threads: one at a time.
class SaslClient {
 public:
  enum class Mechanism : std::uint8_t { kAnonymous, kExternal, kPlain };
  enum class State : std::uint8_t { kHeader, kMechanisms, kOutcome, kDone, kFailed };

  /// @param out  gets the header.
  SaslClient(Mechanism mechanism, std::string user, Secret password, std::string hostname,
             std::string& out);

  void on_header(std::string_view header);
  /// @param body  of a whole frame of this layer. @param out  gets the answer.
  void on_frame(std::string_view body, std::string& out);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  /// kFailed because of who we are, not of what was said.
  [[nodiscard]] bool is_refused() const noexcept { return refused_; }

 private:
  void fail(std::string why, bool refused = false);
  void on_mechanisms(std::string_view arguments, std::string& out);
  void on_outcome(std::string_view arguments);

  const Mechanism mechanism_;
  const std::string user_, hostname_;
  Secret password_;
  State state_ = State::kHeader;
  bool refused_ = false;
  unsigned challenges_ = 0;
  std::string fault_;
};

}  // namespace kintsugi::workers
