#include "train/data_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "train/digit_set.h"
#include "train/images.h"
#include "train/synthetic.h"
#include "train/text.h"

namespace starling {

namespace {

using Data = TrainSettings::Data;

void keep_first(DigitSet& digits, std::size_t most) {
  if (most == 0 || most >= digits.count) return;
  digits.count = most;
  digits.labels.resize(most);
  digits.pixels.resize(most * digits.rows * digits.cols);
}

DataSets images(Digits digits, const TrainSettings& settings) {
  keep_first(digits.train, static_cast<std::size_t>(settings.samples));
  keep_first(digits.test, static_cast<std::size_t>(settings.test_samples));
  return {std::make_unique<Images>(std::move(digits.train)),
          std::make_unique<Images>(std::move(digits.test)), kDigitClasses};
}

DataSets windows(TextSplit text, const TrainSettings& settings) {
  const auto context = static_cast<std::size_t>(settings.network.context);
  const auto symbols = static_cast<int>(text.symbols.size());
  return {std::make_unique<TextWindows>(std::move(text.train), context,
                                        static_cast<std::size_t>(settings.samples)),
          std::make_unique<TextWindows>(std::move(text.validation), context,
                                        static_cast<std::size_t>(settings.test_samples)),
          symbols};
}

DataSets load(const TrainSettings& settings) {
  const auto samples = static_cast<std::size_t>(settings.samples);
  switch (settings.data) {
    case Data::mnist:
      return images(load_mnist(settings.data_folder), settings);
    case Data::fashion_mnist:
      return images(load_fashion_mnist(settings.data_folder), settings);
    case Data::synthetic:
      return images(synthetic_digits(samples > 0 ? samples : 10'000, 2'000, 1), settings);
    case Data::kjv:
      return windows(load_kjv(settings.data_folder), settings);
    case Data::text:
      return windows(load_text(settings.data_folder), settings);
  }
  throw Error("there is no such data set");
}

}  // namespace

DataSets load_data(const TrainSettings& settings, int workers) {
  DataSets data = load(settings);
  const auto samples = static_cast<int>(data.train->count());
  if (settings.batch > samples) {
    throw Error(
        fmt::format("batch = {} is more than the {} training samples", settings.batch, samples),
        fmt::format("each worker takes that many a step: use at most {}",
                    std::max(1, samples / workers)));
  }
  if (settings.shards != TrainSettings::Shards::even && data.train->labels().empty()) {
    throw Error(fmt::format("shards = {} goes by labels, and data = {} has none",
                            name_of(settings.shards), name_of(settings.data)),
                "use shards even");
  }
  return data;
}

}  // namespace starling
