// How an image is drawn:
//   (a) a digit is a few strokes through control points, written for a box of 100 x 100;
//   (b) the points are warped a little, for no two hands write alike, then scaled, sheared, turned
//       and shifted;
//   (c) a pen runs along each stroke in steps of less than a pixel, and every pixel keeps its
//       distance to the nearest pen position;
//   (d) the distance becomes ink: full within the stroke's radius, fading over its soft edge, plus
//       noise.
//
// All of it is integer arithmetic (positions in 1/256 pixel, ratios in 1/4096), but for square
// roots, which IEEE 754 rounds alike everywhere. Floating point would draw other pixels on a
// machine whose compiler fuses multiply and add.
#include "train/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "base/random.h"

namespace starling {

namespace {

constexpr int kSide = static_cast<int>(kDigitSide);
constexpr std::size_t kPixels = kDigitSide * kDigitSide;
constexpr int kPixelBits = 8;
constexpr int kPixel = 1 << kPixelBits;  // sub-positions of a pixel
constexpr int kOne = 4096;               // the ratio 1

struct Point {
  int x, y;
};

enum class Pen { kStraight, kCurved, kLoop };  // kLoop is curved and returns to its first point

struct Stroke {
  static constexpr std::size_t kMaxPoints = 12;
  Pen pen = Pen::kStraight;
  std::size_t size = 0;
  std::array<Point, kMaxPoints> points{};
};

struct Glyph {
  static constexpr std::size_t kMaxStrokes = 3;
  std::array<Stroke, kMaxStrokes> strokes{};  // unused ones have no points
};

template <std::size_t N>
constexpr Stroke stroke(Pen pen, const Point (&points)[N]) {
  static_assert(N >= 2 && N <= Stroke::kMaxPoints);
  Stroke result{pen, N, {}};
  std::copy(points, points + N, result.points.begin());
  return result;
}
template <std::size_t N>
constexpr Stroke line(const Point (&points)[N]) {
  return stroke(Pen::kStraight, points);
}
template <std::size_t N>
constexpr Stroke curve(const Point (&points)[N]) {
  return stroke(Pen::kCurved, points);
}
template <std::size_t N>
constexpr Stroke loop(const Point (&points)[N]) {
  return stroke(Pen::kLoop, points);
}

// Each digit is written in two ways. x runs right, y runs down. Left to itself, clang-format gives
// each point a line.
constexpr std::size_t kWays = 2;
// clang-format off
constexpr std::array<std::array<Glyph, kWays>, kDigitClasses> kGlyphs = {{
    {{
        // 0: round; narrow and leaning
        {{loop({{50, 2}, {26, 14}, {18, 50}, {26, 86}, {50, 98}, {74, 86}, {82, 50}, {74, 14}})}},
        {{loop({{58, 2}, {38, 20}, {29, 55}, {33, 88}, {46, 98}, {63, 84}, {71, 48}, {69, 15}})}},
    }},
    {{
        // 1: a bar; a flag, a bar and a foot
        {{line({{52, 2}, {50, 98}})}},
        {{line({{32, 24}, {53, 3}, {53, 97}}), line({{36, 97}, {70, 97}})}},
    }},
    {{
        // 2: a straight foot; a looped foot
        {{curve({{22, 24}, {34, 6}, {56, 2}, {75, 16}, {73, 38}, {52, 64}, {22, 97}}),
          line({{22, 97}, {82, 96}})}},
        {{curve({{24, 20}, {42, 3}, {66, 6}, {74, 28}, {60, 56}, {38, 88}, {22, 92},
                 {22, 80}, {40, 80}, {62, 95}, {84, 90}})}},
    }},
    {{
        // 3: two bowls; a flat top
        {{curve({{22, 14}, {44, 2}, {70, 10}, {70, 34}, {42, 47}}),
          curve({{42, 47}, {74, 56}, {78, 82}, {52, 98}, {20, 88}})}},
        {{line({{22, 4}, {76, 4}, {46, 42}}),
          curve({{46, 42}, {72, 50}, {80, 72}, {64, 94}, {40, 98}, {20, 88}})}},
    }},
    {{
        // 4: open; closed
        {{line({{30, 4}, {20, 56}, {82, 54}}), line({{66, 22}, {62, 98}})}},
        {{line({{80, 66}, {16, 66}, {62, 3}, {62, 98}})}},
    }},
    {{
        // 5: with corners; in one swing
        {{line({{78, 4}, {32, 4}, {27, 44}}),
          curve({{27, 44}, {54, 36}, {76, 52}, {74, 84}, {48, 98}, {20, 88}})}},
        {{curve({{80, 6}, {56, 4}, {36, 10}, {30, 40}, {56, 44}, {74, 62}, {66, 88},
                 {42, 98}, {18, 88}})}},
    }},
    {{
        // 6: a bent back; a straight back
        {{curve({{70, 8}, {46, 10}, {28, 36}, {22, 70}, {36, 96}, {62, 96}, {76, 76},
                 {66, 56}, {44, 54}, {25, 72}})}},
        {{line({{58, 2}, {32, 56}}),
          loop({{32, 56}, {24, 76}, {36, 96}, {58, 97}, {72, 80}, {68, 60}, {48, 52}})}},
    }},
    {{
        // 7: plain; crossed
        {{line({{20, 6}, {80, 4}, {44, 98}})}},
        {{line({{20, 12}, {24, 4}, {78, 6}}), curve({{78, 6}, {60, 36}, {46, 66}, {40, 98}}),
          line({{34, 50}, {74, 46}})}},
    }},
    {{
        // 8: one stroke that crosses itself; two rings
        {{loop({{68, 12}, {44, 2}, {26, 18}, {40, 42}, {66, 60}, {74, 84}, {50, 98},
                {26, 84}, {36, 58}, {62, 42}, {74, 24}})}},
        {{loop({{50, 3}, {30, 12}, {30, 36}, {50, 46}, {70, 36}, {70, 12}}),
          loop({{50, 46}, {26, 60}, {24, 84}, {50, 98}, {76, 84}, {74, 60}})}},
    }},
    {{
        // 9: a straight stem; a hooked tail
        {{loop({{70, 20}, {50, 3}, {30, 12}, {26, 34}, {42, 50}, {64, 42}}),
          line({{71, 12}, {64, 98}})}},
        {{curve({{74, 24}, {60, 5}, {38, 6}, {26, 26}, {38, 46}, {60, 42}, {73, 24}}),
          curve({{73, 24}, {74, 60}, {62, 92}, {38, 97}, {24, 88}})}},
    }},
}};
// clang-format on

int between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

// Symmetric about the middle and likelier there, as hands are.
int around(Random& random, int middle, int reach) {
  return middle + (between(random, -reach, reach) + between(random, -reach, reach)) / 2;
}

int scaled(int value, int ratio) { return value * ratio / kOne; }

// Where one writer puts the points of the 100 x 100 box on the image.
class Hand {
 public:
  explicit Hand(Random& random) {
    for (Point& node : warp_) node = {around(random, 0, kWarp), around(random, 0, kWarp)};
    height_ = between(random, kOne * 78 / 100, kOne * 108 / 100);
    width_ = scaled(height_, between(random, kOne * 70 / 100, kOne * 115 / 100));
    shear_ = around(random, 0, kOne * 35 / 100);
    const int angle = around(random, 0, kOne * 30 / 100);  // radians: 17 degrees each way at most
    const int angle2 = scaled(angle, angle);
    sin_ = angle - scaled(angle2, angle) / 6;
    cos_ = kOne - angle2 / 2;
    shift_ = {around(random, 0, 3 * kPixel), around(random, 0, 3 * kPixel)};
  }

  Point place(Point p) const {
    const Point bend = warp(p);
    constexpr int kBoxHeight = 20 * kPixel;  // as MNIST's digits are, before height_
    int x = (p.x - 50) * kBoxHeight / 100 + bend.x;
    int y = (p.y - 50) * kBoxHeight / 100 + bend.y;
    y = scaled(y, height_);
    x = scaled(x, width_) - scaled(y, shear_);
    constexpr int kCentre = kSide * kPixel / 2;
    return {kCentre + shift_.x + scaled(x, cos_) - scaled(y, sin_),
            kCentre + shift_.y + scaled(x, sin_) + scaled(y, cos_)};
  }

 private:
  static constexpr int kWarp = 2 * kPixel;

  // Displacements at the corners, edges and centre of the box, interpolated between them: points
  // that coincide stay together, so strokes that meet still do.
  Point warp(Point p) const {
    constexpr int kCell = 50;
    const int column = p.x < kCell ? 0 : 1;
    const int row = p.y < kCell ? 0 : 1;
    const int fx = p.x - kCell * column;
    const int fy = p.y - kCell * row;
    const Point* node = &warp_[static_cast<std::size_t>(3 * row + column)];
    const auto blend = [&](int Point::*axis) {
      const int above = node[0].*axis * (kCell - fx) + node[1].*axis * fx;
      const int below = node[3].*axis * (kCell - fx) + node[4].*axis * fx;
      return (above * (kCell - fy) + below * fy) / (kCell * kCell);
    };
    return {blend(&Point::x), blend(&Point::y)};
  }

  std::array<Point, 9> warp_;
  int height_, width_, shear_, sin_, cos_;
  Point shift_;
};

// One image's squared distances to the nearest pen position, as far as the pen's reach.
class Canvas {
 public:
  static constexpr int kFar = 1 << 23;  // a float still holds every smaller integer

  explicit Canvas(int reach) : reach_(reach) { distance2_.fill(kFar); }

  void dab(Point p) {
    const int left = std::max(0, first_centre(p.x - reach_));
    const int right = std::min(kSide, first_centre(p.x + reach_));
    const int top = std::max(0, first_centre(p.y - reach_));
    const int bottom = std::min(kSide, first_centre(p.y + reach_));
    for (int row = top; row < bottom; ++row) {
      const int dy = centre(row) - p.y;
      int* pixels = &distance2_[static_cast<std::size_t>(row * kSide)];
      for (int column = left; column < right; ++column) {
        const int dx = centre(column) - p.x;
        pixels[column] = std::min(pixels[column], dx * dx + dy * dy);
      }
    }
  }

  // Along the Catmull-Rom spline from b to c; a and d bend it, unless all four are in line.
  void draw(Point a, Point b, Point c, Point d) {
    const int chord = std::max(std::abs(c.x - b.x), std::abs(c.y - b.y));
    const int steps = 1 + chord / (kPixel * 2 / 5);
    for (int step = 0; step <= steps; ++step) {
      const int t = step * kOne / steps;
      const auto at = [t](int p, int q, int r, int s) {
        const int cubic = -p + 3 * q - 3 * r + s;
        const int square = 2 * p - 5 * q + 4 * r - s;
        return q + scaled(scaled(scaled(cubic, t) + square, t) + r - p, t) / 2;
      };
      dab({at(a.x, b.x, c.x, d.x), at(a.y, b.y, c.y, d.y)});
    }
  }

  const std::array<int, kPixels>& distance2() const { return distance2_; }

 private:
  static int centre(int pixel) { return pixel * kPixel + kPixel / 2; }
  // The first pixel whose centre is not before this position. The shift rounds down below 0, too.
  static int first_centre(int position) { return (position + kPixel / 2 - 1) >> kPixelBits; }

  int reach_;
  std::array<int, kPixels> distance2_;
};

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Hand& hand) {
  std::array<Point, Stroke::kMaxPoints> points;
  const std::size_t size = stroke.size;
  for (std::size_t i = 0; i < size; ++i) points[i] = hand.place(stroke.points[i]);

  const bool closed = stroke.pen == Pen::kLoop;
  for (std::size_t i = 0; i < (closed ? size : size - 1); ++i) {
    const Point b = points[i];
    const Point c = points[(i + 1) % size];
    Point a = {2 * b.x - c.x, 2 * b.y - c.y};
    Point d = {2 * c.x - b.x, 2 * c.y - b.y};
    if (stroke.pen != Pen::kStraight) {
      if (closed || i > 0) a = points[(i + size - 1) % size];
      if (closed || i + 2 < size) d = points[(i + 2) % size];
    }
    canvas.draw(a, b, c, d);
  }
}

// Every pixel needs only a few random bits, so one word serves four.
void add_noise(std::span<std::uint8_t, kPixels> image, int strength, Random& random) {
  static_assert(kPixels % 4 == 0);
  for (std::size_t i = 0; i < kPixels; i += 4) {
    std::uint64_t bits = random.bits();
    for (std::size_t j = i; j < i + 4; ++j, bits >>= 16) {
      const int noise = static_cast<int>(bits & 255) - static_cast<int>(bits >> 8 & 255);
      image[j] = static_cast<std::uint8_t>(std::clamp(image[j] + noise * strength / 256, 0, 255));
    }
  }
}

void draw_digit(std::span<std::uint8_t, kPixels> image, std::size_t digit, Random random) {
  const Glyph& glyph = kGlyphs[digit][random.below(kWays)];
  const Hand hand(random);
  const int radius = between(random, kPixel * 50 / 100, kPixel * 150 / 100);
  const int soft_edge = between(random, kPixel * 70 / 100, kPixel * 140 / 100);
  const int ink = between(random, 140, 255);
  const int noise = between(random, 0, 48);

  const int reach = radius + soft_edge / 2;
  Canvas canvas(reach);
  for (const Stroke& stroke : glyph.strokes) {
    if (stroke.size > 0) draw_stroke(canvas, stroke, hand);
  }
  for (std::size_t i = 0; i < kPixels; ++i) {
    const int distance = static_cast<int>(std::sqrt(static_cast<float>(canvas.distance2()[i])));
    const int inside = std::clamp(reach - distance, 0, soft_edge);
    image[i] = static_cast<std::uint8_t>(ink * inside / soft_edge);
  }
  add_noise(image, noise, random);
}

enum Split : std::uint64_t { kTrain = 1, kTest = 2 };
enum Stream : std::uint64_t { kLabels = 1, kImages = 2 };

// Labels are shuffled in blocks of ten rather than i % 10: workers often take every n-th image, and
// with i % 10 some would never see some digits.
DigitSet draw_set(std::size_t count, Split split, std::uint64_t seed) {
  DigitSet set{std::vector<std::uint8_t>(count * kPixels), std::vector<std::uint8_t>(count), count,
               kDigitSide, kDigitSide};
  std::array<std::uint8_t, kDigitClasses> block{};
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kDigitClasses == 0) {
      std::iota(block.begin(), block.end(), std::uint8_t{0});
      Random{seed, split, kLabels, i / kDigitClasses}.shuffle(std::span<std::uint8_t>(block));
    }
    set.labels[i] = block[i % kDigitClasses];
    const std::span<std::uint8_t, kPixels> image(&set.pixels[i * kPixels], kPixels);
    draw_digit(image, set.labels[i], Random{seed, split, kImages, i});
  }
  return set;
}

}  // namespace

Digits synthetic_digits(std::size_t train_count, std::size_t test_count, std::uint64_t seed) {
  return {draw_set(train_count, kTrain, seed), draw_set(test_count, kTest, seed)};
}

}  // namespace starling
