// outer with a codec, and in overlap: against the plain maths, to the bit.
#include "math/vector_math.h"
#include "tests/exchange/coded_oracle.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

struct OuterCase {
  CodecSettings codec;
  int size;
  int steps;
  bool overlap;
};

class OuterOracle {
 public:
  OuterOracle(const Settings& settings, const Floats& first)
      : lr_(static_cast<float>(settings.mix.outer_lr)),
        momentum_(static_cast<float>(settings.mix.outer_momentum)),
        feedback_(settings.mix.codec.feedback),
        coded_(settings.workers, first.size(), settings.mix.codec,
               static_cast<std::uint64_t>(settings.seed)),
        finer_(settings.workers, first.size(), codec_of_last_round(settings.mix.codec),
               static_cast<std::uint64_t>(settings.seed)),
        base_(first),
        velocity_(first.size()) {}

  // The base that a round with these weights leads to.
  const Floats& round(const Vectors& weights) {
    const Floats change = mean_change(weights);
    scale(velocity_, momentum_);
    add(velocity_, change);
    subtract_scaled(base_, change, lr_);
    subtract_scaled(base_, velocity_, lr_ * momentum_);
    return base_;
  }
  // What all end with, in bytes.
  const Floats& last(const Vectors& weights) {
    Vectors changes = changes_of(weights);
    for (std::size_t rank = 0; feedback_ && rank < changes.size(); ++rank) {
      add(changes[rank], coded_.left_out(rank, base_.size()));
    }
    subtract_scaled(base_, finer_.mean(changes), 1);
    return base_;
  }
  std::uint64_t sent(std::size_t rank) const { return coded_.sent[rank] + finer_.sent[rank]; }

 private:
  Vectors changes_of(Vectors weights) const {
    for (Floats& each : weights) {
      scale(each, -1);
      add(each, base_);
    }
    return weights;
  }
  Floats mean_change(const Vectors& weights) { return coded_.mean(changes_of(weights)); }

  float lr_, momentum_;
  bool feedback_;
  CodedOracle coded_, finer_;
  Floats base_, velocity_;
};

TEST(CodedOuter, IsNesterovAlongTheMeanOfCodedChangesAndSendsNothingElse) {
  using Kind = CodecSettings::Kind;
  std::vector<OuterCase> cases;
  for (const CodecSettings& codec :
       {CodecSettings{.kind = Kind::half}, CodecSettings{.kind = Kind::top_k, .share = 0.1},
        CodecSettings{.kind = Kind::top_k, .share = 0.1, .feedback = false},
        CodecSettings{.kind = Kind::threshold, .threshold = 0.05},
        CodecSettings{.kind = Kind::quantized, .levels = 1},
        CodecSettings{.kind = Kind::random, .share = 0.1, .feedback = false},
        CodecSettings{.kind = Kind::sign}, CodecSettings{.kind = Kind::low_rank}}) {
    for (int size : {1, 2, 3, 5}) {
      for (int steps : {12, 14}) {  // the last step ends a round, or not
        for (bool overlap : {false, true}) cases.push_back({codec, size, steps, overlap});
      }
    }
  }
  constexpr int kPeriod = 4;
  constexpr std::size_t kElements = 203;  // three of them buffers
  for (const OuterCase& each : cases) {
    SCOPED_TRACE(testing::Message() << name_of(each.codec.kind) << " n=" << each.size
                                    << " steps=" << each.steps << " overlap=" << each.overlap);
    Settings settings = settings_for("mix", each.size);
    settings.mix.graph.kind = GraphSettings::Kind::mesh;
    settings.mix.rule = MixingSettings::Rule::outer;
    settings.mix.outer_momentum = 0.5;
    settings.mix.codec = each.codec;
    settings.schedule.period = kPeriod;
    settings.schedule.overlap = each.overlap;
    Workers workers(settings, kElements, kElements - 3);
    workers.start();
    std::vector<std::uint64_t> at_start;
    for (int rank = 0; rank < each.size; ++rank) {
      at_start.push_back(workers.sent_bytes(rank, Purpose::weights));
    }
    OuterOracle oracle(settings, workers.weights[0]);
    Vectors expected = workers.weights, before;
    Floats yields;  // what the round that is under way leads to
    const auto join = [&] {
      for (std::size_t rank = 0; !yields.empty() && rank < expected.size(); ++rank) {
        subtract_scaled(expected[rank], before[rank], 1);
        scale(expected[rank], 1);
        add(expected[rank], yields);
      }
      yields.clear();
    };
    for (int step = 1; step <= each.steps; ++step) {
      const Vectors changes = random_vectors(each.size, kElements, static_cast<unsigned>(step));
      for (std::size_t rank = 0; rank < changes.size(); ++rank) {
        subtract_scaled(workers.weights[rank], changes[rank], 0.1f);
        subtract_scaled(expected[rank], changes[rank], 0.1f);
      }
      workers.after_update();
      if (step % kPeriod == 0) {
        if (each.overlap) {
          join();
          before = expected;
          yields = oracle.round(expected);
        } else {
          const Floats base = oracle.round(expected);
          for (Floats& weights : expected) weights = base;
        }
      }
      ASSERT_EQ(workers.weights, expected) << step;
    }
    join();
    const Floats last = oracle.last(expected);
    for (Floats& weights : expected) weights = last;
    workers.finish();
    ASSERT_EQ(workers.weights, expected);
    for (const Floats& weights : workers.weights) EXPECT_EQ(weights, workers.weights[0]);
    for (int rank = 0; rank < each.size; ++rank) {
      const std::uint64_t sent = workers.sent_bytes(rank, Purpose::weights) - at_start[index(rank)];
      const std::uint64_t looking = sent - oracle.sent(index(rank));  // whether all are alike
      EXPECT_LE(looking, 16u * 4) << "rank " << rank;
    }
  }
}

TEST(CodedOuter, LearnsWhatTheMeanWantsAlsoInOverlap) {
  using Kind = CodecSettings::Kind;
  for (const Kind codec : {Kind::raw, Kind::half, Kind::top_k, Kind::quantized}) {
    for (bool overlap : {false, true}) {
      for (int size : {2, 4}) {
        Training training;
        training.settings = settings_for("mix", size);
        training.settings.mix.graph.kind = GraphSettings::Kind::mesh;
        training.settings.mix.rule = MixingSettings::Rule::outer;
        training.settings.mix.outer_lr = 0.5;
        training.settings.mix.outer_momentum = 0.3;
        training.settings.mix.codec.kind = codec;
        if (codec == Kind::top_k) training.settings.mix.codec.share = 0.25;
        training.settings.schedule.period = 4;
        training.settings.schedule.overlap = overlap;
        training.settings.optimizer.lr = 0.05;
        training.steps = 802;
        const Trained trained = train(training);
        expect_all_well(trained.errors);
        EXPECT_LT(difference(trained.weights[0], mean_of(training.centres())),
                  codec == Kind::top_k ? 0.1 : 0.02)
            << name_of(codec) << " overlap=" << overlap << " n=" << size;
        for (const Floats& weights : trained.weights) EXPECT_EQ(weights, trained.weights[0]);
      }
    }
  }
}

}  // namespace
}  // namespace starling
