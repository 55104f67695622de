// Rules that wait for each other, with no training around them: they are the graph's matrices, so
// everything about them can be computed beforehand.
#include <functional>
#include <numeric>

#include "exchange/pairwise.h"
#include "tests/mixing/mixers.h"
#include "topology/mixing.h"
#include "topology/spectrum.h"

namespace starling {
namespace {

constexpr int kSizes[] = {1, 2, 3, 5, 8, 13};

// The mean with one's predecessor, so far as the step goes, so many times in a row.
Matrix repeated(const MixingSettings& settings, std::size_t n) {
  Matrix result(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) result[i][i] = 1;
  for (int pass = 0; pass < settings.graph.passes && n > 1; ++pass) {
    Matrix next = result;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        next[i][k] += settings.step * (result[(i + n - 1) % n][k] - result[i][k]);
      }
    }
    result = next;
  }
  return result;
}

// What a round does, by plain maths: I + 2 step (W - I). Through the centre of a star, and for all
// in a mesh, the mean of all is taken at once.
Matrix matrix_of(const MixingSettings& settings, std::uint64_t round) {
  const Graph graph = make_graph(settings.graph);
  if (settings.rule == MixingSettings::Rule::push_sum) return push_matrix(graph, round);
  const std::size_t n = index(graph.size());
  if (settings.graph.kind == GraphSettings::Kind::star && settings.step == 0.5) {
    return Matrix(n, std::vector<double>(n, 1 / static_cast<double>(n)));
  }
  Matrix matrix = graph.symmetric() ? metropolis_matrix(graph, round) : mean_matrix(graph, round);
  if (settings.graph.repeats()) return repeated(settings, n);
  if (const auto& merge = settings.graph.merge_weights; !merge.empty()) {  // D-PSGD's line 7
    matrix.assign(n, std::vector<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        matrix[i][(i + n + k - 1) % n] += merge[k] / (merge[0] + merge[1] + merge[2]);
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) matrix[i][k] *= 2 * settings.step;
    matrix[i][i] += 1 - 2 * settings.step;
  }
  return matrix;
}

std::vector<Matrix> matrices_of(const MixingSettings& settings) {
  std::vector<Matrix> rounds;
  const std::uint64_t count = make_graph(settings.graph).rounds();
  for (std::uint64_t round = 0; round < count; ++round) {
    rounds.push_back(matrix_of(settings, round));
  }
  return rounds;
}

// W w, in doubles; a vector is a row a worker.
using Doubles = std::vector<std::vector<double>>;
Doubles operator*(const Matrix& matrix, const Doubles& w) {
  Doubles product(w.size(), std::vector<double>(w[0].size()));
  for (std::size_t i = 0; i < w.size(); ++i) {
    for (std::size_t k = 0; k < w.size(); ++k) {
      for (std::size_t e = 0; e < w[0].size(); ++e) product[i][e] += matrix[i][k] * w[k][e];
    }
  }
  return product;
}

// With a number behind the weights, by which push-sum divides; it stays 1 for means.
Doubles with_numbers(const Vectors& weights) {
  Doubles result;
  for (const Floats& each : weights) {
    result.emplace_back(each.begin(), each.end());
    result.back().push_back(1);
  }
  return result;
}
std::vector<double> divided(std::vector<double> row) {
  for (double& value : row) value /= row.back();
  row.pop_back();
  return row;
}

struct Case {
  std::string rule, graph;
  double step = 0.5;
  int passes = 1;
  std::vector<double> merge_weights = {};
  GraphSettings::Passes passes_mean = GraphSettings::Passes::window;
};
std::string name_of(const testing::TestParamInfo<Case>& test) {
  const Case& c = test.param;
  return message_of(c.rule + " " + c.graph + (c.passes > 1 ? " " + std::to_string(c.passes) : "") +
                    (c.merge_weights.empty() ? "" : " merged") +
                    (c.passes_mean == GraphSettings::Passes::window
                         ? ""
                         : " " + std::string(name_of(c.passes_mean))) +
                    (c.step != 0.5 ? " carefully" : ""));
}

MixingSettings settings_of(const Case& c, int size) {
  MixingSettings settings = mixing_of(c.rule, c.graph, size);
  settings.step = c.step;
  settings.graph.merge_weights = c.merge_weights;
  settings.graph.passes = std::min(c.passes, std::max(1, size - 1));
  settings.graph.passes_mean = c.passes_mean;
  return settings;
}

class InRounds : public testing::TestWithParam<Case> {};

TEST_P(InRounds, IsThePowersOfTheMatrix) {
  for (int size : kSizes) {
    const MixingSettings settings = settings_of(GetParam(), size);
    for (std::size_t elements : {1, 17, 1000}) {
      Mixers mixers(settings, elements, elements);
      Doubles expected = with_numbers(mixers.weights);
      for (std::uint64_t round = 0; round < 12; ++round) {
        mixers.mix(round);
        expected = matrix_of(settings, round) * expected;
        for (std::size_t rank = 0; rank < expected.size(); ++rank) {
          ASSERT_LT(difference(mixers.weights[rank], divided(expected[rank])), 2e-6)
              << "n=" << size << " elements=" << elements << " round=" << round;
        }
      }
    }
  }
}

TEST_P(InRounds, ShrinksTheSpreadAtTheRateOfTheSpectrum) {
  for (int size : kSizes) {
    const MixingSettings settings = settings_of(GetParam(), size);
    const std::vector<Matrix> rounds = matrices_of(settings);
    const double rate = contraction(rounds);
    ASSERT_LT(rate, size == 1 ? 1.1 : 1) << "they would never agree";
    Mixers mixers(settings, 1000);
    std::uint64_t round = 0;
    const auto mix_until = [&](double goal) {  // whole cycles of the graph
      while ((spread(mixers.weights) > goal && round < 5000) || round % rounds.size() != 0) {
        mixers.mix(round++);
      }
    };
    mix_until(1e-2);
    const double before = spread(mixers.weights);
    const auto begin = static_cast<double>(round);
    mix_until(1e-5);
    const double after = spread(mixers.weights);
    if (rate < 0.1) {
      EXPECT_LE(round, 6 * rounds.size()) << "n=" << size;
      continue;
    }
    const double fit = std::pow(after / before, 1 / (static_cast<double>(round) - begin));
    EXPECT_NEAR(fit / rate, 1, 0.04) << "n=" << size << " rate " << rate;
  }
}

TEST_P(InRounds, KeepsTheMeanInEveryRound) {
  const Case& c = GetParam();
  if (c.rule == "mean" && c.graph == "directed-file") GTEST_SKIP() << "not doubly stochastic";
  for (int size : kSizes) {
    for (std::uint64_t seed : {1, 2, 3}) {
      Mixers mixers(settings_of(c, size), 101, seed);
      const std::vector<double> mean = mean_of(mixers.weights);
      for (std::uint64_t round = 0; round < 30; ++round) {
        mixers.mix(round);
        const std::vector<double> shares = mixers.shares();
        ASSERT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), size, 1e-5);
        ASSERT_LT(difference(mean_of(mixers.weights, shares), mean), 2e-6)
            << "n=" << size << " round=" << round;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, InRounds,
    testing::Values(Case{"mean", "window"}, Case{"mean", "window", 0.5, 3},
                    Case{"mean", "window", 0.2, 2},
                    Case{"mean", "window", 0.5, 1, {}, GraphSettings::Passes::repeat},
                    Case{"mean", "window", 0.5, 3, {}, GraphSettings::Passes::repeat},
                    Case{"mean", "window", 0.3, 2, {}, GraphSettings::Passes::repeat},
                    Case{"mean", "window", 0.5, 1, {}, GraphSettings::Passes::group},
                    Case{"mean", "window", 0.5, 3, {}, GraphSettings::Passes::group},
                    Case{"mean", "window", 0.3, 2, {}, GraphSettings::Passes::group},
                    Case{"mean", "closed-ring"}, Case{"mean", "closed-ring", 0.3},
                    Case{"mean", "closed-ring", 0.5, 1, {1, 3, 2}},
                    Case{"mean", "closed-ring", 0.3, 1, {0, 1, 2}}, Case{"mean", "exponential"},
                    Case{"mean", "exponential", 0.3}, Case{"mean", "static-exponential"},
                    Case{"mean", "tree"}, Case{"mean", "star"}, Case{"mean", "star", 0.4},
                    Case{"mean", "mesh"}, Case{"mean", "mesh", 0.1}, Case{"mean", "file"},
                    Case{"mean", "directed-file"}, Case{"push-sum", "window"},
                    Case{"push-sum", "window", 0.5, 2}, Case{"push-sum", "exponential"},
                    Case{"push-sum", "tree"}, Case{"push-sum", "directed-file"}),
    name_of);

// What passes are, for every number of them: the same as plain maths, however long the vectors are;
// what goes over the wire; and the mean of all in the end.

void for_each_meaning(const std::function<void(const MixingSettings&)>& check) {
  for (int size : kSizes) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      for (const char* meaning : {"window", "repeat", "group"}) {
        SCOPED_TRACE(testing::Message() << meaning << " n=" << size << " passes=" << passes);
        MixingSettings settings = mixing_of("mean", "window", size);
        settings.graph.passes = passes;
        settings.graph.passes_mean = named<GraphSettings::Passes>(meaning);
        check(settings);
      }
    }
  }
}

TEST(PassesMean, ThePowersOfTheirMatrixForEveryLength) {
  for_each_meaning([](const MixingSettings& settings) {
    for (std::size_t elements : {0, 1, 17, 100'003}) {
      if (elements > 1000 && settings.graph.size > 5) continue;
      Mixers mixers(settings, elements, 3);
      Doubles expected = with_numbers(mixers.weights);
      for (std::uint64_t round = 0; round < 5; ++round) {
        mixers.mix(round);
        expected = matrix_of(settings, round) * expected;
        for (std::size_t rank = 0; rank < expected.size(); ++rank) {
          ASSERT_LT(difference(mixers.weights[rank], divided(expected[rank])), 2e-6)
              << "elements=" << elements << " round=" << round << " rank=" << rank;
        }
      }
    }
  });
}

// What all send a round, in models.
double sent_by_all(const GraphSettings& graph, std::uint64_t round) {
  if (graph.repeats() && graph.size > 1) return graph.passes * graph.size;
  if (!graph.in_groups()) return pairwise_vectors_sent(graph.size, graph.passes) * graph.size;
  double sent = 0;
  const int members = std::min(graph.passes + 1, graph.size);
  for (const auto& group : dealt_groups(graph.size, members, round)) {
    sent += 2.0 * static_cast<double>(group.size() - 1);
  }
  return sent;
}

TEST(PassesMean, WhatTheFormulasSendARound) {
  constexpr std::size_t kElements = 2520;  // so that every ring's chunks are whole
  for_each_meaning([](const MixingSettings& settings) {
    Mixers mixers(settings, kElements);
    double before = 0;
    for (std::uint64_t round = 0; round < 5; ++round) {
      mixers.mix(round);
      double sent = 0;
      for (int rank = 0; rank < settings.graph.size; ++rank) {
        sent += static_cast<double>(
            mixers.cluster.comm(rank).ledger().total(Direction::sent, Purpose::weights).payload);
      }
      const double models = settings.graph.size == 1 ? 0 : sent_by_all(settings.graph, round);
      EXPECT_NEAR(sent - before, models * 4 * kElements, 1e-6) << "round " << round;
      before = sent;
    }
  });
}

TEST(PassesMean, ThatAllAgreeOnTheMeanInTheEnd) {
  for_each_meaning([](const MixingSettings& settings) {
    Mixers mixers(settings, 101);
    const std::vector<double> mean = mean_of(mixers.weights);
    std::uint64_t round = 0;
    while (spread(mixers.weights) > 1e-6 && round < 1000) mixers.mix(round++);
    EXPECT_LT(round, 1000u);
    EXPECT_LT(difference(mean_of(mixers.weights), mean), 1e-5);
  });
}

// Push-sum is worth its number: on a graph where some are heard more often, plain means agree on
// something else than the mean.
TEST(PushSum, FindsTheMeanWhereMeansDoNot) {
  for (int size : {5, 8}) {
    for (const char* rule : {"mean", "push-sum"}) {
      Mixers mixers(mixing_of(rule, "directed-file", size), 101);
      const std::vector<double> mean = mean_of(mixers.weights);
      for (std::uint64_t round = 0; round < 400; ++round) mixers.mix(round);
      ASSERT_LT(spread(mixers.weights), 1e-6);
      const double off = difference(mixers.weights[0], mean);
      if (rule == std::string("mean")) {
        EXPECT_GT(off, 0.02);
      } else {
        EXPECT_LT(off, 2e-6);
      }
    }
  }
}

// mean with a codec

MixingSettings coded(const std::string& graph, int size, const std::string& codec, double step) {
  MixingSettings settings = mixing_of("mean", graph, size);
  settings.codec.kind = named<CodecSettings::Kind>(codec);
  settings.codec.share = 0.1;
  settings.codec.threshold = 0.02;
  settings.step = step;
  return settings;
}

struct Coded {
  std::string name;
  double step, agreement;  // how near they come
};

class CodedMean : public testing::TestWithParam<Coded> {};

TEST_P(CodedMean, AgreesOnTheMeanAndKeepsItInEveryRound) {
  for (const char* graph :
       {"window", "closed-ring", "static-exponential", "tree", "star", "mesh"}) {
    for (int size : {1, 2, 3, 5, 8}) {
      for (std::size_t elements : {1, 17, 300}) {
        SCOPED_TRACE(testing::Message() << graph << " n=" << size << " elements=" << elements);
        Mixers mixers(coded(graph, size, GetParam().name, GetParam().step), elements);
        const std::vector<double> mean = mean_of(mixers.weights);
        for (std::uint64_t round = 0; round < 900; ++round) {
          mixers.mix(round);
          if (round % 50 == 0 || round < 20) {
            ASSERT_LT(difference(mean_of(mixers.weights), mean), 2e-5) << round;
          }
          if (round > 20 && spread(mixers.weights) < GetParam().agreement / 2) break;
        }
        EXPECT_LT(spread(mixers.weights), GetParam().agreement);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodedMean,
                         testing::Values(Coded{"half", 0.5, 1e-5}, Coded{"bfloat", 0.5, 1e-5},
                                         Coded{"top-k", 0.1, 1e-3}, Coded{"threshold", 0.05, 0.03}),
                         [](const auto& test) { return message_of(test.param.name); });

// The error of one round feeds the next if the step is too long for what the codec says.
TEST(CodedMeans, NeedsAShortStepWhereTheCodecIsCoarse) {
  const auto spread_after = [](double step) {
    MixingSettings settings = coded("closed-ring", 8, "top-k", step);
    settings.codec.share = 0.01;
    Mixers mixers(settings, 1000);
    for (std::uint64_t round = 0; round < 1500; ++round) mixers.mix(round);
    return spread(mixers.weights);
  };
  EXPECT_LT(spread_after(0.01), 0.1);
  EXPECT_FALSE(spread_after(0.5) < 0.5);
}

// All elements are said at once, rounded to 16 bits: then it is the mean, to that rounding.
TEST(CodedMeans, IsTheMeanWhereTheCodecSaysEverything) {
  for (const char* graph : {"window", "closed-ring", "tree", "star", "file"}) {
    MixingSettings settings = coded(graph, 8, "half", 0.4);
    MixingSettings raw = coded(graph, 8, "raw", 0.4);
    Mixers said(settings, 50), expected(raw, 50);
    for (std::uint64_t round = 0; round < 20; ++round) {
      said.mix(round);
      expected.mix(round);
      for (std::size_t rank = 0; rank < 8; ++rank) {
        ASSERT_LT(difference(said.weights[rank], expected.weights[rank]), 1e-3) << graph;
      }
    }
  }
}

// outer, sampled

// One byte more than any code can have, by a program that is not ours.
Task<> send_too_much(Comm& comm, std::size_t size) {
  const std::vector<std::byte> bytes(size);
  co_await comm.send(0, kMixingChannel, ConstBytes(bytes));
}

TEST(CodedMeans, RefuseACodeThatIsTooLongBeforeItComes) {
  MixingSettings settings = mixing_of("mean", "mesh", 2);
  settings.codec.kind = CodecSettings::Kind::top_k;
  settings.codec.share = 0.1;
  Cluster cluster(2);
  const auto rule = make_mixing(settings, cluster.comm(0), 1);
  Floats weights(100);
  const std::size_t largest = make_codec(settings.codec)->largest_code_bytes(100);
  cluster.run([&](Comm& comm) {
    return comm.rank() == 0 ? rule->start(weights) : sleep_until(comm.loop(), 0ms);
  });
  const std::string error = what(cluster.try_run([&](Comm& comm) {
    return comm.rank() == 0 ? rule->mix(weights, 0) : send_too_much(comm, largest + 1);
  })[0]);
  EXPECT_NE(error.find(fmt::format("rank 1 sent {} bytes in mixing weights where {} were the most; "
                                   "all workers must run the same program",
                                   largest + 1, largest)),
            std::string::npos)
      << error;
}

TEST(Outer, IsNesterovAlongTheMeanChange) {
  for (int size : kSizes) {
    for (const char* graph : {"mesh", "star"}) {
      MixingSettings settings = mixing_of("outer", graph, size);
      settings.outer_lr = 0.7;
      settings.outer_momentum = 0.6;
      Mixers mixers(settings, 17);
      std::vector<double> base(17), velocity(17);
      for (std::uint64_t round = 0; round < 10; ++round) {
        const Vectors steps = random_vectors(size, 17, round);
        for (std::size_t rank = 0; rank < steps.size(); ++rank) {
          for (std::size_t i = 0; i < 17; ++i) mixers.weights[rank][i] += 0.1f * steps[rank][i];
        }
        const std::vector<double> mean = mean_of(mixers.weights);
        mixers.mix(round);
        for (std::size_t i = 0; i < 17; ++i) {
          const double change = base[i] - mean[i];
          velocity[i] = 0.6 * velocity[i] + change;
          base[i] -= 0.7 * (change + 0.6 * velocity[i]);
        }
        for (const Floats& weights : mixers.weights) ASSERT_LT(difference(weights, base), 5e-6);
      }
    }
  }
}

TEST(Outer, WithRateOneAndNoMomentumIsTheMean) {
  MixingSettings settings = mixing_of("outer", "mesh", 5);
  settings.outer_lr = 1;
  settings.outer_momentum = 0;
  Mixers mixers(settings, 17);
  const std::vector<double> mean = mean_of(mixers.weights);
  mixers.mix(0);
  for (const Floats& weights : mixers.weights) EXPECT_LT(difference(weights, mean), 1e-6);
}

TEST(Sampled, IsTheMeanOfThoseWhoTakePartWeightedByTheirSamples) {
  for (int size : kSizes) {
    for (double share : {0.01, 0.3, 0.75, 1.0}) {
      MixingSettings settings = mixing_of("sampled", "star", size);
      settings.client_share = share;
      std::vector<std::uint64_t> samples;
      for (int rank = 0; rank < size; ++rank) {
        samples.push_back(static_cast<std::uint64_t>(10 + 7 * rank));
      }
      Mixers mixers(settings, 17, 1, {}, samples);
      std::vector<int> times(index(size));
      for (std::uint64_t round = 0; round < 60; ++round) {
        mixers.weights = random_vectors(size, 17, round);
        std::vector<double> counts;
        int clients = 0;
        for (std::size_t rank = 0; rank < samples.size(); ++rank) {
          const bool takes_part = mixers.rules[rank]->takes_part(round);
          counts.push_back(takes_part ? static_cast<double>(samples[rank]) : 0);
          clients += takes_part;
          times[rank] += takes_part;
        }
        EXPECT_EQ(clients, std::max(1, static_cast<int>(std::lround(share * size))));
        const std::vector<double> mean = mean_of(mixers.weights, counts);
        mixers.mix(round);
        for (const Floats& weights : mixers.weights) {
          EXPECT_EQ(weights, mixers.weights[0]);
          ASSERT_LT(difference(weights, mean), 1e-6) << "n=" << size << " share=" << share;
        }
      }
      if (share > 0.2) {
        EXPECT_GT(*std::ranges::min_element(times), 0) << "somebody never trains";
      }
    }
  }
}

// Nobody has told it of samples: all count alike.
TEST(Sampled, CountsAWorkerWithoutSamplesAsIfItHadOne) {
  Mixers mixers(mixing_of("sampled", "star", 3), 17, 1, {}, {0, 0, 0});
  const std::vector<double> mean = mean_of(mixers.weights);
  mixers.mix(0);
  for (const Floats& weights : mixers.weights) EXPECT_LT(difference(weights, mean), 1e-6);
}

TEST(MeanMixing, CountsEveryModelThatIsMixedIn) {
  const std::map<std::string, std::uint64_t> models_a_round = {
      {"window", 1}, {"closed-ring", 2}, {"exponential", 1}, {"mesh", 4}, {"star", 4}};
  for (const auto& [graph, models] : models_a_round) {
    Mixers mixers(mixing_of("mean", graph, 5), 3);
    mixers.mix(0);
    mixers.mix(1);
    EXPECT_EQ(mixers.rules[1]->report().models(), 2 * models) << graph;
    EXPECT_EQ(mixers.rules[1]->report().rounds, 2u) << graph;
  }
  MixingSettings two = mixing_of("mean", "window", 5);
  two.graph.passes = 2;
  Mixers mixers(two, 3);
  mixers.mix(0);
  EXPECT_EQ(mixers.rules[1]->report().models(), 2u);
}

// Others may be far ahead, and have written to it.
TEST(LateWorker, FindsLettersWhenItStarts) {
  for (const auto& [rule, graph] :
       {std::pair{"elastic", "star"}, std::pair{"penalty", "star"},
        std::pair{"elastic-push", "tree"}, std::pair{"sum-weight", "mesh"}}) {
    for (int late = 0; late < 4; ++late) {
      SCOPED_TRACE(testing::Message() << rule << ", rank " << late);
      const MixingSettings settings = mixing_of(rule, graph, 4);
      Cluster cluster(4);
      Vectors weights = random_vectors(4, 17, 5);
      std::vector<std::unique_ptr<Mixing>> rules;
      for (int rank = 0; rank < 4; ++rank) {
        rules.push_back(make_mixing(settings, cluster.comm(rank), 1));
      }
      const auto live = [&](Comm& comm) -> Task<> {
        Mixing& own = *rules[index(comm.rank())];
        std::span<float> model = weights[index(comm.rank())];
        if (comm.rank() == late) co_await sleep_until(comm.loop(), 100ms);
        co_await own.start(model);
        for (std::uint64_t step = 1; step <= 30; ++step) {
          co_await sleep_until(comm.loop(), comm.loop().now() + 1ms);
          own.set_clock(step);
          own.attend(model);
          co_await own.mix(model, step - 1);
        }
        co_await own.settle(model);
      };
      cluster.run(live);
      for (const Floats& each : weights) {
        for (const float value : each) EXPECT_LT(std::abs(value), 10);
      }
    }
  }
}

}  // namespace
}  // namespace starling
