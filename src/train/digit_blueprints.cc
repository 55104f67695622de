// Networks for images of digits.
#include "train/blueprint.h"

namespace starling {

using torch::Tensor;
namespace nn = torch::nn;

// The small network of the classic MNIST examples: 21,840 parameters.
Blueprint mnist_cnn() {
  Blueprint blueprint;
  blueprint.layers = {
      {"conv1",
       [](Drawing& drawing) {
         const Unit conv1 = drawing.kit.column(nn::Conv2d(1, 10, 5));
         return Layer{{{"conv1", conv1.module}}, [conv1](const Tensor& x) {
                        return torch::relu(torch::max_pool2d(conv1(x), 2));
                      }};
       }},
      {"conv2",
       [](Drawing& drawing) {
         const Unit conv2 = drawing.kit.row(nn::Conv2d(10, 20, 5));
         nn::Dropout2d drop2;
         return Layer{{{"conv2", conv2.module}, {"drop2", drop2.ptr()}},
                      [conv2, drop2](const Tensor& x) mutable {
                        return torch::relu(torch::max_pool2d(drop2(conv2(x)), 2));
                      }};
       }},
      {"fc1",
       [](Drawing& drawing) {
         const Unit fc1 = drawing.kit.column(Dense(320, 50));
         return Layer{{{"fc1", fc1.module}}, [fc1](const Tensor& x) {
                        return torch::relu(fc1(x.view({-1, 320})));
                      }};
       }},
      {"fc2",
       [](Drawing& drawing) {
         const Unit drop1 = drawing.kit.dropout(nn::Dropout(), 50);
         const Unit fc2 = drawing.kit.row(Dense(50, 10));
         return Layer{{{"drop1", drop1.module}, {"fc2", fc2.module}},
                      [drop1, fc2](const Tensor& x) { return fc2(drop1(x)); }};
       }},
  };
  return blueprint;
}

namespace {

// Columns and rows of a kit take turns.
enum class Side { column, row };

Blueprint::Part pooled_convolution(const std::string& name, std::int64_t in, std::int64_t out,
                                   Side side) {
  return {name, [=](Drawing& drawing) {
            nn::Conv2d whole(nn::Conv2dOptions(in, out, 3).padding(1));
            const Unit conv =
                side == Side::column ? drawing.kit.column(whole) : drawing.kit.row(whole);
            return Layer{{{name, conv.module}}, [conv](const Tensor& x) {
                           return torch::max_pool2d(torch::relu(conv(x)), 2);
                         }};
          }};
}

Blueprint::Part dense(const std::string& name, std::int64_t in, std::int64_t out) {
  return {name, [=](Drawing& drawing) {
            const Unit layer = drawing.kit.column(Dense(in, out));
            return Layer{{{name, layer.module}},
                         [=](const Tensor& x) { return torch::relu(layer(x.flatten(1))); }};
          }};
}

// Its inputs are so many channels, each of as many numbers.
Blueprint::Part last_dense(const std::string& name, std::int64_t channels, std::int64_t numbers,
                           std::int64_t out) {
  return {
      name, [=](Drawing& drawing) {
        const Unit layer = drawing.kit.row(Dense(channels * numbers, out), numbers);
        return Layer{{{name, layer.module}}, [=](const Tensor& x) { return layer(x.flatten(1)); }};
      }};
}

}  // namespace

// Three convolution layers, as in the experiment of pair-wise averaging's first paper.
Blueprint cnn3() {
  Blueprint blueprint;
  blueprint.layers = {pooled_convolution("conv1", 1, 16, Side::column),
                      pooled_convolution("conv2", 16, 32, Side::row),
                      pooled_convolution("conv3", 32, 64, Side::column),
                      last_dense("fc", 64, 3 * 3, 10)};
  return blueprint;
}

// One hidden layer and no dropout: with it, runs can be compared number by number.
Blueprint mlp() {
  Blueprint blueprint;
  blueprint.layers = {dense("fc1", 784, 128), last_dense("fc2", 128, 1, 10)};
  return blueprint;
}

}  // namespace starling
