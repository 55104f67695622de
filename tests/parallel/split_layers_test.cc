// Each layer that ranks share beside the whole one: the same numbers, to float rounding, forward and
// backward, for odd sizes and uneven shares.
#include "parallel/split_layers.h"

#include "base/error.h"
#include "tests/error_of.h"
#include "tests/parallel/sharing.h"

namespace starling {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

Tensor numbers(std::vector<std::int64_t> sizes) {
  torch::manual_seed(77);
  return torch::randn(sizes);
}

// The whole layer, or on every rank its slice.
template <class Split, class Holder, class Around>
Shared one_layer(Holder whole, const TensorGroup* group, Around around) {
  auto root = std::make_shared<nn::Module>();
  if (group == nullptr) {
    root->register_module("layer", whole);
    return {root, [whole](const Tensor& x) mutable { return whole(x); }};
  }
  Split layer(*group, whole);
  root->register_module("layer", layer);
  return {root, [=](const Tensor& x) mutable { return around(*group, x, layer); }};
}

// A column's outputs are joined, a row's inputs taken from what is whole.
const auto gathered = [](std::int64_t dimension, std::int64_t size) {
  return [=](const TensorGroup& group, const Tensor& x, auto& layer) {
    return group.gather(layer(x), group.slice(dimension, size, "outputs"));
  };
};
const auto taken = [](std::int64_t dimension, std::int64_t size) {
  return [=](const TensorGroup& group, const Tensor& x, auto& layer) {
    return layer(group.take(x, group.slice(dimension, size, "inputs")));
  };
};

TEST(SplitLayers, DenseByOutputAndByInputAreTheWhole) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const auto& [in, out] : {std::pair{7, 11}, {4, 4}, {13, 5}}) {
      for (const bool bias : {true, false}) {
        const auto whole = [=] { return nn::Linear(nn::LinearOptions(in, out).bias(bias)); };
        const std::string what = fmt::format("{} to {}", in, out);
        expect_same_as_whole(
            [=](const TensorGroup* group) {
              return one_layer<ColumnLinear>(whole(), group, gathered(-1, out));
            },
            numbers({3, in}), ranks, what + " by output");
        expect_same_as_whole(
            [=](const TensorGroup* group) {
              return one_layer<RowLinear>(whole(), group, taken(-1, in));
            },
            numbers({2, 5, in}), ranks, what + " by input");
      }
    }
  }
}

TEST(SplitLayers, APairNeedsOneExchangeForwardAndOneBackward) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_same_as_whole(
        [](const TensorGroup* group) {
          auto root = std::make_shared<nn::Module>();
          nn::Linear up(6, 17), down(17, 5);
          if (group == nullptr) {
            root->register_module("up", up);
            root->register_module("down", down);
            return Shared{root, [=](const Tensor& x) mutable { return down(torch::tanh(up(x))); }};
          }
          ColumnLinear first(*group, up);
          RowLinear second(*group, down);
          root->register_module("up", first);
          root->register_module("down", second);
          return Shared{root,
                        [=](const Tensor& x) mutable { return second(torch::tanh(first(x))); }};
        },
        numbers({4, 6}), ranks, "a pair");
  }
  // Two ranks that sum 20 numbers forward and 24 backward send each other just those.
  Cluster cluster(2);
  cluster.run(with_own_random(2, [&](Comm& comm) {
    const TensorGroup group{Group(comm)};
    ColumnLinear up(group, nn::Linear(6, 17));
    RowLinear down(group, nn::Linear(17, 5));
    const auto sent = [&] {
      return comm.ledger().total(Direction::sent, Purpose::activations).payload;
    };
    const Tensor y = down(torch::tanh(up(numbers({4, 6}).requires_grad_())));
    EXPECT_EQ(sent(), 20 * sizeof(float));
    y.sum().backward();
    EXPECT_EQ(sent(), (20 + 24) * sizeof(float));
    EXPECT_EQ(comm.ledger().total(Direction::sent).payload, sent());
  }));
}

TEST(SplitLayers, StretchesAreEachSharedOut) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_same_as_whole(
        [](const TensorGroup* group) {
          nn::Linear whole(5, 3 * 7);
          auto root = std::make_shared<nn::Module>();
          if (group == nullptr) {
            root->register_module("layer", whole);
            return Shared{root, [=](const Tensor& x) mutable {
                            const auto parts = whole(x).chunk(3, -1);
                            return parts[0] * parts[1] + parts[2];
                          }};
          }
          ColumnLinear layer(*group, whole, 3);
          root->register_module("layer", layer);
          return Shared{root, [=](const Tensor& x) mutable {
                          const auto parts = layer(x).chunk(3, -1);
                          return group->gather(parts[0] * parts[1] + parts[2],
                                               group->slice(-1, 7, "outputs"));
                        }};
        },
        numbers({4, 5}), ranks, "three stretches");
    // And all of them joined are in the order of the whole.
    expect_same_as_whole(
        [](const TensorGroup* group) {
          return one_layer<ColumnLinear>(
              nn::Linear(5, 21), group, [](const TensorGroup& g, const Tensor& x, auto& layer) {
                const Slice three = g.slice(-1, 21, "outputs", 3);
                const Slice one = g.slice(-1, 21, "outputs");
                return g.gather(g.take(g.gather(layer(x), one), three), three);
              });
        },
        numbers({4, 5}), ranks, "three stretches, joined");
  }
}

TEST(SplitLayers, ConvolutionsByChannelsAreTheWhole) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const auto whole = [] {
      return nn::Conv2d(nn::Conv2dOptions(5, 7, {3, 2}).stride({2, 1}).padding({1, 0}));
    };
    expect_same_as_whole(
        [=](const TensorGroup* group) {
          return one_layer<ColumnConv2d>(whole(), group, gathered(1, 7));
        },
        numbers({2, 5, 9, 6}), ranks, "a convolution by output");
    expect_same_as_whole(
        [=](const TensorGroup* group) { return one_layer<RowConv2d>(whole(), group, taken(1, 5)); },
        numbers({2, 5, 9, 6}), ranks, "a convolution by input");
  }
}

TEST(SplitLayers, AnEmbeddingByVocabularyIsTheWhole) {
  torch::manual_seed(3);
  const Tensor symbols = torch::randint(11, {4, 9}, torch::kLong);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_same_as_whole(
        [](const TensorGroup* group) {
          return one_layer<SplitEmbedding>(
              nn::Embedding(11, 6), group,
              [](const TensorGroup&, const Tensor& x, auto& layer) { return layer(x); });
        },
        symbols, ranks, "an embedding");
  }
}

TEST(SplitLayers, DropoutIsThatOfTheWhole) {
  for (const double probability : {0.0, 0.3, 1.0}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      expect_same_as_whole(
          [=](const TensorGroup* group) {
            auto root = std::make_shared<nn::Module>();
            nn::Dropout whole(probability);
            if (group == nullptr) {
              return Shared{root, [=](const Tensor& x) mutable { return whole(x) + whole(x); }};
            }
            SplitDropout layer(*group, whole, 13);
            const Slice slice = group->slice(-1, 13, "numbers");
            return Shared{root, [=](const Tensor& x) mutable {
                            const Tensor mine = group->take(x, slice);
                            return group->gather(layer(mine) + layer(mine), slice);
                          }};
          },
          numbers({6, 13}), ranks, fmt::format("dropout of {}", probability));
    }
  }
  Cluster cluster(2);
  cluster.run(with_own_random(2, [&](Comm& comm) {
    SplitDropout layer(TensorGroup{Group(comm)}, nn::Dropout(0.5), 4);
    layer->eval();
    const Tensor x = numbers({3, 2});
    EXPECT_TRUE(torch::equal(layer(x), x)) << "there is none outside of training";
  }));
}

TEST(SplitLayers, ALayerTooNarrowForItsRanksIsRefused) {
  Cluster cluster(3);
  cluster.run(with_own_random(3, [&](Comm& comm) {
    const TensorGroup group{Group(comm)};
    EXPECT_EQ(starling::error_of([&] { ColumnLinear(group, nn::Linear(8, 2)); }),
              "2 outputs cannot be shared out among 3 ranks; use fewer ranks a layer, or a wider "
              "one");
    EXPECT_EQ(starling::error_of([&] { RowDense(group, Dense(18, 4), 9); }),
              "2 inputs cannot be shared out among 3 ranks; use fewer ranks a layer, or a wider "
              "one");
  }));
}

TEST(SplitLayers, ARankLostInAPassIsNamedByAllOthers) {
  for (const bool backward : {false, true}) {
    Cluster cluster(3, {{1.25e8, std::chrono::milliseconds(1)}, {}});
    int others = 0;
    const auto errors = cluster.try_run(with_own_random(3, [&](Comm& comm) {
      const TensorGroup group{Group(comm)};
      ColumnLinear up(group, nn::Linear(4, 6));
      RowLinear down(group, nn::Linear(6, 4));
      const Tensor x = numbers({2, 4}).requires_grad_();
      if (comm.rank() == 1 && !backward) throw Error("had enough");
      const Tensor y = down(up(x));
      if (comm.rank() == 1) throw Error("had enough");
      try {
        y.sum().backward();
      } catch (const PeerLost&) {
        EXPECT_TRUE(backward);
        throw;
      }
      ++others;
    }));
    EXPECT_EQ(others, 0);
    for (const int rank : {0, 2}) {
      ASSERT_NE(errors[static_cast<std::size_t>(rank)], nullptr);
      try {
        std::rethrow_exception(errors[static_cast<std::size_t>(rank)]);
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), 1);
      }
    }
  }
}

TEST(SplitLayers, ARankThatDoesNotComeIsWaitedForUntilTheDeadline) {
  Cluster cluster(2);
  const auto errors = cluster.try_run(with_own_random(2, [&](Comm& comm) {
    const TensorGroup group(Group(comm), std::chrono::seconds(7));
    if (comm.rank() == 1) return;
    group.sum(numbers({3}));
  }));
  EXPECT_THROW(std::rethrow_exception(errors[0]), DeadlineExceeded);
  EXPECT_EQ(cluster.loop().now(), std::chrono::seconds(7));
}

}  // namespace
}  // namespace starling
