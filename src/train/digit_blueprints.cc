// Networks for images of digits.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

#include "train/blueprint.h"
#include "train/dense.h"

namespace starling {

using torch::Tensor;
namespace nn = torch::nn;

// The small network of the classic MNIST examples: 21,840 parameters.
Blueprint mnist_cnn() {
  Blueprint blueprint;
  blueprint.layers = {
      {"conv1",
       [](Drawing&) {
         nn::Conv2d conv1(1, 10, 5);
         return Layer{{{"conv1", conv1.ptr()}}, [conv1](const Tensor& x) mutable {
                        return torch::relu(torch::max_pool2d(conv1(x), 2));
                      }};
       }},
      {"conv2",
       [](Drawing&) {
         nn::Conv2d conv2(10, 20, 5);
         nn::Dropout2d drop2;
         return Layer{{{"conv2", conv2.ptr()}, {"drop2", drop2.ptr()}},
                      [conv2, drop2](const Tensor& x) mutable {
                        return torch::relu(torch::max_pool2d(drop2(conv2(x)), 2));
                      }};
       }},
      {"fc1",
       [](Drawing&) {
         Dense fc1(320, 50);
         return Layer{{{"fc1", fc1.ptr()}}, [fc1](const Tensor& x) mutable {
                        return torch::relu(fc1(x.view({-1, 320})));
                      }};
       }},
      {"fc2",
       [](Drawing&) {
         nn::Dropout drop1;
         Dense fc2(50, 10);
         return Layer{{{"drop1", drop1.ptr()}, {"fc2", fc2.ptr()}},
                      [drop1, fc2](const Tensor& x) mutable { return fc2(drop1(x)); }};
       }},
  };
  return blueprint;
}

namespace {

Blueprint::Part pooled_convolution(const std::string& name, std::int64_t in, std::int64_t out) {
  return {name, [=](Drawing&) {
            nn::Conv2d conv(nn::Conv2dOptions(in, out, 3).padding(1));
            return Layer{{{name, conv.ptr()}}, [conv](const Tensor& x) mutable {
                           return torch::max_pool2d(torch::relu(conv(x)), 2);
                         }};
          }};
}

Blueprint::Part dense(const std::string& name, std::int64_t in, std::int64_t out, bool last) {
  return {name, [=](Drawing&) {
            Dense layer(in, out);
            return Layer{{{name, layer.ptr()}}, [=](const Tensor& x) mutable {
                           const Tensor y = layer(x.flatten(1));
                           return last ? y : torch::relu(y);
                         }};
          }};
}

}  // namespace

// Three convolution layers, as in the experiment of pair-wise averaging's first paper.
Blueprint cnn3() {
  Blueprint blueprint;
  blueprint.layers = {pooled_convolution("conv1", 1, 16), pooled_convolution("conv2", 16, 32),
                      pooled_convolution("conv3", 32, 64), dense("fc", 64 * 3 * 3, 10, true)};
  return blueprint;
}

// One hidden layer and no dropout: with it, runs can be compared number by number.
Blueprint mlp() {
  Blueprint blueprint;
  blueprint.layers = {dense("fc1", 784, 128, false), dense("fc2", 128, 10, true)};
  return blueprint;
}

}  // namespace starling
