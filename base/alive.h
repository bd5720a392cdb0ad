#pragma once

#include <memory>
#include <utility>

namespace kintsugi {

/// Lets callbacks that come later find out that their owner is gone. A class that hands out `this`
/// to a loop, a store or another object has one as its last member, and wraps each callback by it:
///
///     loop.post(alive_.guard([this] { save(); }));
///
/// What is guarded runs only while the owner lives, and is nothing after that. The owner may end
/// that before it is destroyed (end()), or stop what is under way and go on (renew()).
///
/// Threads: the owner's alone decides, runs and asks. Another one, such as the writer of a store,
/// may take, copy and destroy guards and what they wrap, but neither ask nor call them: there would
/// be no telling that the owner stays while the callback runs.
/// Cost: one allocation, when it is made or renewed. Lifetime: guards may outlive it.
class Alive {
 public:
  /// Whether the owner is still there.
  class Guard {
   public:
    Guard() = default;  ///< of nobody
    [[nodiscard]] explicit operator bool() const noexcept { return !owner_.expired(); }

   private:
    friend class Alive;
    explicit Guard(const std::shared_ptr<const char>& owner) noexcept : owner_(owner) {}
    std::weak_ptr<const char> owner_;
  };

  Alive() = default;
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;

  /// For callbacks that have more to do than to end when the owner is gone.
  [[nodiscard]] Guard weak() const noexcept { return Guard(token_); }

  /// `callback`, which has to return nothing, for as long as the owner lives. @param callback  is
  /// kept until the result goes, whether it can still run or not
  template <class Callback>
  [[nodiscard]] auto guard(Callback callback) const {
    return [owner = weak(), callback = std::move(callback)](auto&&... arguments) mutable {
      if (owner) {
        callback(std::forward<decltype(arguments)>(arguments)...);
      }
    };
  }

  /// As if the owner were gone: nothing that was guarded runs any more, nor what will be.
  void end() noexcept { token_.reset(); }
  /// Nothing that was guarded until now runs any more.
  void renew() { token_ = std::make_shared<const char>(); }

 private:
  std::shared_ptr<const char> token_ = std::make_shared<const char>();
};

}  // namespace kintsugi
