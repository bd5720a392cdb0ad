#include "controlplane/moves/move_view.h"

#include <string>
#include <utility>

namespace kintsugi::controlplane {

using krm::Json;

AnsweringView::Answer answer_moves(MoveSteps& steps) {
  return [&steps](const apiserver::WriteContext& context, Json object,
                  const apiserver::Hooks::CreateDone& done) {
    const Json* asked = object.find("spec");
    steps.run(std::string(context.cluster), asked == nullptr ? Json::object() : *asked,
              [object, done](Expected<Json> answer) mutable {
                if (!answer) {
                  done(fail(std::move(answer.error())));
                  return;
                }
                object.erase("spec");
                object["status"] = std::move(*answer);
                done(std::move(object));
              });
  };
}

}  // namespace kintsugi::controlplane
