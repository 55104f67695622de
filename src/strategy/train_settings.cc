#include "strategy/train_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace starling {

void check(const TrainSettings& settings) {
  const bool reads_text = settings.model == "char-gpt";
  if (reads_text != settings.is_text() && !settings.model.ends_with(".pt")) {
    throw Error(fmt::format("model = {} does not take data = {}", settings.model, settings.data),
                reads_text ? "give it text: --data kjv, or text" : "text is for --model char-gpt");
  }
  const NetworkSettings& network = settings.network;
  // Each layer halves the image's sides: 28, 14, 7, 3, 1.
  if (settings.model == "local-net" && network.depth > 4) {
    throw Error(fmt::format("depth = {} leaves nothing of an image in local-net", network.depth),
                "each layer halves its sides: use 4 at the most");
  }
  if (!reads_text) return;
  if (network.width % (2 * network.heads) != 0) {
    throw Error(fmt::format("width = {} cannot be shared out among {} heads in pairs of numbers",
                            network.width, network.heads),
                "make it a multiple of twice as many");
  }
}

std::optional<int> layer_count(const TrainSettings& settings) {
  const NetworkSettings& network = settings.network;
  if (settings.model == "mnist-cnn" || settings.model == "cnn3") return 4;
  if (settings.model == "mlp") return 2;
  if (settings.model == "resnet") return network.depth + 2;
  if (settings.model == "local-net") return network.depth + 1;
  if (settings.model == "char-gpt") return network.layers + 2;
  return std::nullopt;
}

std::optional<Target> target_of(const TrainSettings& settings) {
  if (settings.until.empty()) return std::nullopt;
  const std::string_view text = settings.until;
  const auto number_behind = [&](std::string_view prefix) {
    double number = -1;
    if (!text.starts_with(prefix)) return number;
    const auto [end, error] =
        std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : -1;
  };
  const double accuracy = number_behind("accuracy=");
  if (accuracy > 0 && accuracy <= 1) return Target{Target::Measure::accuracy, accuracy};
  const double loss = number_behind("loss=");
  if (loss > 0) return Target{Target::Measure::loss, loss};
  throw Error(fmt::format("until = '{}' is not understood", settings.until),
              "write it like accuracy=0.97, or loss=2.2");
}

}  // namespace starling
