#include "measure/run_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/run_data.h"

namespace starling {

namespace {

using nlohmann::json;

std::string time_text(double seconds) {
  return format_duration(std::chrono::milliseconds(static_cast<long>(seconds * 1000)));
}

std::string describe(const json& progress, double accuracy) {
  const double time = number_in(progress, "time");
  const double step = number_in(progress, "step");
  const double steps = number_in(progress, "steps");
  const double left = step > 0 ? time / step * (steps - step) : 0;
  return fmt::format("{}{} left  loss {:.3f}  epoch {:.1f}  {} samples/s  {} sent/worker",
                     accuracy < 0 ? "" : fmt::format("{:.2f} %  ", accuracy * 100),
                     time_text(std::floor(left)), number_in(progress, "loss", NAN),
                     number_in(progress, "epoch"),
                     format_count(number_in(progress, "samples_per_second")),
                     format_bytes(number_in(progress, "payload_bytes_sent")));
}

}  // namespace

RunBar::RunBar(std::string label, const GridProgress* grid)
    : label_(std::move(label)), grid_(grid), bar_(grid != nullptr ? grid->name() : label_) {}

void RunBar::take(const json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "evaluation") {
    accuracy_ = number_in(event, "accuracy");
    const std::string unit = event.value("loss_unit", "");
    bar_.say(fmt::format("{}: epoch {:.2f}  accuracy {:.2f} %  loss {:.4f}{}{}  {}", label_,
                         number_in(event, "epoch"), accuracy_ * 100,
                         number_in(event, "test_loss", NAN), unit.empty() ? "" : " ", unit,
                         time_text(number_in(event, "training_time"))));
  }
  if (kind == "progress" || kind == "evaluation") {
    const double share = number_in(event, "step") / std::max(1.0, number_in(event, "steps"));
    const std::string text = describe(event, accuracy_);
    if (grid_ != nullptr) {
      bar_.show(grid_->share(share), grid_->describe(share) + "  " + text);
    } else {
      bar_.show(share, text);
    }
  }
}

}  // namespace starling
