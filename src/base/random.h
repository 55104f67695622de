// Seeded randomness with the same numbers on every machine. The standard library fixes its engines
// but not its distributions, so the few distributions we need are here.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <random>
#include <span>
#include <utility>

namespace starling {

class Random {
 public:
  // Several words make one seed (run seed, rank, epoch ...), so that streams do not overlap.
  Random(std::initializer_list<std::uint64_t> seed) {
    std::uint64_t mixed = 0x9e3779b97f4a7c15;
    for (std::uint64_t word : seed) mixed = mix(mixed ^ word);
    engine_.seed(mixed);
  }

  std::uint64_t bits() { return engine_(); }

  // Uniform in [0, 1), with 53 random bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in [0, bound), without modulo bias (Lemire's multiply-and-reject).
  std::uint64_t below(std::uint64_t bound) {
    while (true) {
      const unsigned __int128 product = static_cast<unsigned __int128>(bits()) * bound;
      if (static_cast<std::uint64_t>(product) >= -bound % bound) {
        return static_cast<std::uint64_t>(product >> 64);
      }
    }
  }

  // Standard normal by Box and Muller; one of the pair is enough for us.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  friend class State;  // which writes down where a stream is (base/state.h)

  static std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::mt19937_64 engine_;
};

}  // namespace starling
