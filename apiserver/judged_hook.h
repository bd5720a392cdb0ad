#pragma once

#include <functional>
#include <utility>

#include "apiserver/resource.h"

namespace kintsugi::apiserver {

/// Decides at once about a write, as Hooks::admit and Hooks::approve see it.
using Judge = std::function<Expected<void>(const WriteContext& context, const krm::Json* object,
                                           const krm::Json* old)>;

/// A hook that answers with the error of `judge`, if there is one, and else goes on with `inner`
/// (empty: nothing more is asked).
[[nodiscard]] inline decltype(Hooks::admit) judged_hook(Judge judge, decltype(Hooks::admit) inner) {
  return [judge = std::move(judge), inner = std::move(inner)](
             const WriteContext& context, const krm::Json* object, const krm::Json* old,
             Hooks::AdmitDone done) {
    if (Expected<void> judged = judge(context, object, old); !judged || !inner) {
      done(std::move(judged));
    } else {
      inner(context, object, old, std::move(done));
    }
  };
}

}  // namespace kintsugi::apiserver
