// A small language model over characters, as a transformer has it since GPT: pre-norm, rotary
// positions, GELU, one matrix for the embedding and the last layer. With 2 layers of 128 and 63
// symbols it has 403,840 parameters.
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "train/blueprint.h"

namespace starling {

namespace {

using torch::Tensor;
namespace nn = torch::nn;

constexpr double kDeviation = 0.05;  // of first weights

nn::Linear linear(std::int64_t in, std::int64_t out, bool bias, double deviation = kDeviation) {
  nn::Linear layer(nn::LinearOptions(in, out).bias(bias));
  nn::init::normal_(layer->weight, 0, deviation);
  if (bias) nn::init::zeros_(layer->bias);
  return layer;
}

// Turns each pair of a query's or key's numbers by an angle that grows with its place, so that their
// product depends on how far they are apart, not on where they stand.
class Rotary {
 public:
  Rotary(std::int64_t context, std::int64_t head_width) {
    const Tensor pair = torch::arange(head_width / 2, torch::kFloat);
    const Tensor speed =
        torch::exp(pair * (-2 * std::log(10'000.0) / static_cast<double>(head_width)));
    const Tensor angle = torch::outer(torch::arange(context, torch::kFloat), speed);
    cos_ = angle.cos();
    sin_ = angle.sin();
  }

  // x: ... x places x head_width
  Tensor operator()(const Tensor& x) const {
    const std::int64_t places = x.size(-2);
    const Tensor cos = cos_.narrow(0, 0, places), sin = sin_.narrow(0, 0, places);
    const auto halves = x.chunk(2, -1);
    return torch::cat({halves[0] * cos - halves[1] * sin, halves[0] * sin + halves[1] * cos}, -1);
  }

 private:
  Tensor cos_, sin_;
};

struct AttentionImpl : nn::Module {
  AttentionImpl(const NetworkSettings& settings, const Kit& kit)
      : heads(kit.heads(settings.heads)),
        rotary(settings.context, settings.width / settings.heads),
        future(torch::full({settings.context, settings.context}, -INFINITY).triu_(1)) {
    qkv = kit.column(linear(settings.width, 3 * settings.width, false), 3);
    out = kit.row(linear(settings.width, settings.width, false,
                         kDeviation / std::sqrt(2.0 * settings.layers)));
    register_module("qkv", qkv.module);
    register_module("out", out.module);
  }

  Tensor forward(const Tensor& x) {
    const std::int64_t places = x.size(1);
    // batch x places x (3 x heads x width of a head), to 3 of batch x heads x places x width
    const auto parts =
        qkv(x).view({x.size(0), places, 3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor query = rotary(parts[0]), key = rotary(parts[1]);
    Tensor scores = torch::matmul(query, key.transpose(-2, -1)) /
                    std::sqrt(static_cast<double>(query.size(-1)));
    scores = scores + future.narrow(0, 0, places).narrow(1, 0, places);
    const Tensor mixed = torch::matmul(scores.softmax(-1), parts[2]);
    return out(mixed.transpose(1, 2).reshape({x.size(0), places, -1}));
  }

  std::int64_t heads;  // that are here
  Rotary rotary;
  Tensor future;  // what a place must not look at
  Unit qkv, out;
};
TORCH_MODULE(Attention);

struct DecoderBlockImpl : nn::Module {
  DecoderBlockImpl(const NetworkSettings& settings, const Kit& kit) {
    const std::int64_t width = settings.width;
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
    attention = register_module("attention", Attention(settings, kit));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
    up = kit.column(linear(width, 4 * width, true));
    down = kit.row(linear(4 * width, width, true, kDeviation / std::sqrt(2.0 * settings.layers)));
    register_module("up", up.module);
    register_module("down", down.module);
  }

  Tensor forward(Tensor x) {
    x = x + attention(norm1(x));
    return x + down(torch::gelu(up(norm2(x))));
  }

  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  Attention attention{nullptr};
  Unit up, down;
};
TORCH_MODULE(DecoderBlock);

// Says which symbol comes next by comparing with all of them: its matrix is the embedding's.
struct HeadImpl : nn::Module, Sliced {
  HeadImpl(std::int64_t width, std::int64_t symbols, const Drawing& drawing)
      : weight(drawing.tied), scores(drawing.kit.scores(symbols)) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
    if (drawing.tied_is_here) return;
    weight = register_parameter("weight", weight.detach().clone());
    if (drawing.tied_slice) slices["weight"] = *drawing.tied_slice;
  }

  Tensor forward(const Tensor& x) { return scores(norm(x), weight); }

  nn::LayerNorm norm{nullptr};
  Tensor weight;
  Kit::Scores scores;
};
TORCH_MODULE(Head);

template <class Module>
Layer layer(const std::string& name, Module module) {
  return {{{name, module.ptr()}}, [module](Tensor x) mutable { return module(std::move(x)); }};
}

}  // namespace

Blueprint char_gpt(const NetworkSettings& settings, int symbols) {
  Blueprint blueprint;
  blueprint.layers.push_back({"embedding", [=](Drawing& drawing) {
                                nn::Embedding whole(symbols, settings.width);
                                nn::init::normal_(whole->weight, 0, kDeviation);
                                const Unit embedding = drawing.kit.embedding(whole);
                                drawing.tied = embedding.module->named_parameters()["weight"];
                                drawing.tied_slice = find_slice(*embedding.module, "weight");
                                return Layer{{{"embedding", embedding.module}}, embedding.forward};
                              }});
  for (int i = 1; i <= settings.layers; ++i) {
    const std::string name = "block" + std::to_string(i);
    blueprint.layers.push_back(
        {name, [=](Drawing& drawing) { return layer(name, DecoderBlock(settings, drawing.kit)); }});
  }
  blueprint.layers.push_back({"head", [=](Drawing& drawing) {
                                return layer("head", Head(settings.width, symbols, drawing));
                              }});
  blueprint.tie = {{"embedding.weight", "head.weight"}};
  return blueprint;
}

}  // namespace starling
