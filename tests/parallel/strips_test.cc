// Layers over images that ranks share in strips, beside the whole ones: rows of neighbours come, and
// their gradients go back.
#include "parallel/strips.h"

#include <torch/nn/modules/conv.h>

#include "tests/error_of.h"
#include "tests/parallel/sharing.h"

namespace starling {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

Tensor images(std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  torch::manual_seed(9);
  return torch::randn({2, channels, rows, columns});
}

// The strip's outputs, joined to an image of so many rows.
Tensor joined(const Strips& strips, const Tensor& strip, std::int64_t rows) {
  return strips.group().gather(strip, strips.slice(rows));
}

// A function of a strip beside the same of the whole image.
void expect_same_strips(const Kit::Function& whole,
                        const std::function<Tensor(const Strips&, const Tensor&)>& of_strip,
                        const Tensor& input, std::int64_t axis, int ranks,
                        const std::string& what) {
  expect_same_as_whole(
      [&](const TensorGroup* group) {
        auto root = std::make_shared<nn::Module>();
        if (group == nullptr) return Shared{root, whole};
        const Strips strips(*group, axis);
        return Shared{root, [=](const Tensor& x) {
                        const Tensor strip = group->take(x, strips.slice(x.size(axis)));
                        const Tensor out = of_strip(strips, strip);
                        return joined(strips, out, whole(x).size(axis));
                      }};
      },
      input, ranks, what);
}

TEST(Strips, AConvolutionIsTheWholeForAnyWindow) {
  struct Shape {
    std::int64_t side, stride, padding, dilation;
  };
  const Tensor input = images(2, 14, 13);
  for (const Shape shape : {Shape{3, 1, 1, 1},
                            {5, 1, 2, 1},
                            {3, 2, 1, 1},
                            {2, 2, 0, 1},
                            {1, 1, 0, 1},
                            {3, 1, 2, 2},
                            {9, 1, 4, 1},
                            {3, 3, 0, 1},
                            {1, 2, 1, 1}}) {
    for (const std::int64_t axis : {Strips::kRows, Strips::kColumns}) {
      for (int ranks = 1; ranks <= 4; ++ranks) {
        const std::int64_t rows = input.size(axis);
        expect_same_as_whole(
            [=](const TensorGroup* group) {
              nn::Conv2d whole(nn::Conv2dOptions(2, 3, shape.side)
                                   .stride(shape.stride)
                                   .padding(shape.padding)
                                   .dilation(shape.dilation));
              auto root = std::make_shared<nn::Module>();
              if (group == nullptr) {
                root->register_module("conv", whole);
                return Shared{root, [=](const Tensor& x) mutable { return whole(x); }};
              }
              const Strips strips(*group, axis);
              StripConv2d conv(strips, whole, rows);
              root->register_module("conv", conv);
              const Windows windows{shape.dilation * (shape.side - 1) + 1, shape.stride,
                                    shape.padding};
              return Shared{root, [=](const Tensor& x) mutable {
                              return joined(strips, conv(group->take(x, strips.slice(rows))),
                                            windows.outputs(rows));
                            }};
            },
            input, ranks,
            fmt::format("side {}, stride {}, padding {}, dilation {}, axis {}", shape.side,
                        shape.stride, shape.padding, shape.dilation, axis));
      }
    }
  }
}

TEST(Strips, ALocallyConnectedLayerIsTheWhole) {
  for (const std::int64_t side : {1, 3, 5}) {
    for (const std::int64_t axis : {Strips::kRows, Strips::kColumns}) {
      for (int ranks = 1; ranks <= 4; ++ranks) {
        expect_same_as_whole(
            [=](const TensorGroup* group) {
              LocallyConnected whole(LocallyConnectedOptions{2, 3, 7, 6, side});
              {
                const torch::NoGradGuard no_gradients;
                whole->bias.normal_();
              }
              auto root = std::make_shared<nn::Module>();
              if (group == nullptr) {
                root->register_module("local", whole);
                return Shared{root, [=](const Tensor& x) mutable { return whole(x); }};
              }
              const Strips strips(*group, axis);
              StripLocallyConnected local(strips, whole);
              root->register_module("local", local);
              const std::int64_t rows = axis == Strips::kRows ? 7 : 6;
              return Shared{root, [=](const Tensor& x) mutable {
                              return joined(strips, local(group->take(x, strips.slice(rows))),
                                            rows);
                            }};
            },
            images(2, 7, 6), ranks, fmt::format("side {}, axis {}", side, axis));
      }
    }
  }
}

TEST(Strips, PoolingAndWhatLooksAroundAreTheWhole) {
  const auto pooled = [](const Tensor& x) { return torch::max_pool2d(x, 2); };
  const auto smooth = [](const Tensor& x) {
    return x * torch::avg_pool2d(x, 5, 1, 2, false, /*count_include_pad=*/false);
  };
  for (const std::int64_t axis : {Strips::kRows, Strips::kColumns}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      expect_same_strips(
          pooled,
          [&](const Strips& strips, const Tensor& strip) {
            return pooled(strips.seen(strip, 11, {.length = 2, .stride = 2}));
          },
          images(2, 11, 11), axis, ranks, "pooling");
      expect_same_strips(
          smooth,
          [&](const Strips& strips, const Tensor& strip) {
            return strips.around(smooth, strip, 11, 2);
          },
          images(2, 11, 11), axis, ranks, "means around");
    }
  }
}

// Only the halo travels: 2 rows each way of 3 channels of 2 images, 8 numbers long.
TEST(Strips, OnlyRowsAtTheBordersTravel) {
  Cluster cluster(3);
  cluster.run(with_own_random(3, [&](Comm& comm) {
    const TensorGroup group{Group(comm)};
    StripLocallyConnected local(Strips(group),
                                LocallyConnected(LocallyConnectedOptions{3, 4, 12, 8, 5}));
    const auto sent = [&] {
      return comm.ledger().total(Direction::sent, Purpose::activations).payload;
    };
    const std::uint64_t halo = 2 * 3 * 2 * 8 * sizeof(float);
    const std::uint64_t neighbours = comm.rank() == 1 ? 2 : 1;
    const Tensor y = local(images(3, 4, 8).requires_grad_());
    EXPECT_EQ(sent(), neighbours * halo);
    y.sum().backward();
    EXPECT_EQ(sent(), 2 * neighbours * halo);
  }));
}

TEST(Strips, TooFewRowsAreRefused) {
  Cluster cluster(3);
  cluster.run(with_own_random(3, [&](Comm& comm) {
    EXPECT_EQ(starling::error_of([&] { Strips(TensorGroup{Group(comm)}).slice(2); }),
              "2 rows of an image cannot be shared out among 3 ranks; use fewer ranks a layer, or "
              "a wider one");
    const auto same = nn::Conv2dOptions(1, 1, 3).padding(torch::kSame);
    EXPECT_EQ(starling::error_of(
                  [&] { StripConv2d(Strips(TensorGroup{Group(comm)}), nn::Conv2d(same), 9); }),
              "a convolution over strips of an image is padded with zeros; give it a padding of so "
              "many on either side");
  }));
}

}  // namespace
}  // namespace starling
