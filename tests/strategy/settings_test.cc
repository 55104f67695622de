#include "strategy/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/error_of.h"

namespace starling {
namespace {

std::string read_error(const std::string& toml) {
  Settings settings;
  return error_of([&] { read_settings(toml, "test.toml", settings); });
}

// Every setting's value as text.
struct Collector {
  std::map<std::string, std::string>& values;
  void operator()(const Setting& setting, const std::string& value) const {
    values[setting.name] = value;
  }
  template <NamedEnum Choice>
  void operator()(const Setting& setting, Choice value) const {
    values[setting.name] = name_of(value);
  }
  void operator()(const Setting& setting, bool value) const {
    values[setting.name] = value ? "true" : "false";
  }
  template <class Number>
  void operator()(const Setting& setting, Number value, Number, Number) const {
    values[setting.name] = fmt::format("{}", value);  // as many digits as it takes to read it back
  }
};

std::map<std::string, std::string> values_of(const Settings& settings) {
  std::map<std::string, std::string> values;
  visit_settings(settings, Collector{values});
  return values;
}

// Gives every setting a value of its own that is not its default.
struct Filler {
  int& count;
  void operator()(const Setting& setting, std::string& value) const {
    value = fmt::format("{} \"{}\" 'a' \\b\\n ü\n\t{}", value, setting.name, ++count);
  }
  template <NamedEnum Choice>
  void operator()(const Setting&, Choice& value) const {
    const std::size_t next = static_cast<std::size_t>(value) + 1;
    value = static_cast<Choice>(next % names_of(value).each.size());
  }
  void operator()(const Setting&, bool& value) const { value = !value; }
  void operator()(const Setting&, int& value, int low, int high) const {
    value = value == low ? high : low;
  }
  void operator()(const Setting&, double& value, double low, double high) const {
    value = low + (high - low) / (3 + ++count);
  }
};

TEST(Settings, ComeBackFromTomlAsTheyWereWritten) {
  Settings filled;
  int count = 0;
  visit_settings(filled, Filler{count});
  const auto wanted = values_of(filled), defaults = values_of(Settings());
  for (const auto& [name, value] : wanted) EXPECT_NE(value, defaults.at(name)) << name;

  Settings back;
  read_settings(write_settings(filled), "test.toml", back);
  EXPECT_EQ(values_of(back), wanted);
}

TEST(Settings, ComeBackForNumbersThatAreHardToWrite) {
  for (double number : {0.1, 0.1 + 0.2, 1.0 / 3, 1e-7, 1e-300, 5e-324, 123456.78901234567, 1e6}) {
    Settings settings, back;
    settings.optimizer.lr = number;
    read_settings(write_settings(settings), "test.toml", back);
    EXPECT_EQ(back.optimizer.lr, number);
  }
}

// Can be whatever a field may be, to count how many an aggregate takes.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{((void)I, Anything{})...}; };
}
template <class T, std::size_t N = 0>
constexpr std::size_t field_count() {
  if constexpr (takes<T>(std::make_index_sequence<N + 1>())) return field_count<T, N + 1>();
  return N;
}

// The structs of others in a struct are no settings, nor is what follows from other settings: the
// graph's size and merge weights, and for mixing whether it waits, its rounds up and down, its seed
// and what the model's matrices are.
TEST(Settings, VisitForgetsNone) {
  const std::size_t count = field_count<Settings>() - 9 + field_count<ElasticSettings>() +
                            field_count<CheckpointSettings>() + field_count<GraphSettings>() - 2 +
                            field_count<MixingSettings>() - 2 - 5 + field_count<CodecSettings>() +
                            field_count<ScheduleSettings>() + field_count<ServerSettings>() - 2 +
                            field_count<GateSettings>() + field_count<StalenessRule>() +
                            field_count<OptimizerSettings>() + field_count<LrSchedule>() +
                            field_count<TrainSettings>() - 1 + field_count<NetworkSettings>() +
                            field_count<ParallelSettings>();
  EXPECT_EQ(values_of(Settings()).size(), count);
}

TEST(Settings, KeepWhatAFileDoesNotName) {
  Settings settings;
  settings.optimizer.lr = 0.7;
  settings.workers = 9;
  read_settings("workers = 5\nstrategy = \"local\"", "test.toml", settings);
  EXPECT_EQ(settings.workers, 5);
  EXPECT_EQ(settings.strategy, StrategyKind::local);
  EXPECT_EQ(settings.optimizer.lr, 0.7);
  read_settings("", "test.toml", settings);
  EXPECT_EQ(settings.workers, 5);
}

TEST(Settings, ReadAWholeNumberWhereAFractionMayBe) {
  Settings settings;
  read_settings("epochs = 7\nlr = 1", "test.toml", settings);
  EXPECT_EQ(settings.train.epochs, 7.0);
  EXPECT_EQ(settings.optimizer.lr, 1.0);
}

TEST(Settings, ComeFromTheSettingsSectionOfASystemFile) {
  Settings settings;
  read_settings("[system]\ntitle = \"T\"\n[settings]\npasses = 2\nlr = 0.5\n", "test.toml",
                settings);
  EXPECT_EQ(settings.mix.graph.passes, 2);
  EXPECT_EQ(settings.optimizer.lr, 0.5);
  EXPECT_EQ(read_error("[system]\ntitle = \"T\"\n[settings]\npasess = 2\n"),
            "test.toml: there is no setting 'pasess'; see `starling train --help` for those there "
            "are");
}

TEST(Settings, BesideASettingsSectionAreNotPassedOverInSilence) {
  EXPECT_EQ(read_error("lr = 0.5\n[settings]\npasses = 2\n"),
            "test.toml: lr stands outside of [settings]");
}

TEST(Settings, RefuseAKeyThatIsNone) {
  EXPECT_EQ(read_error("passes = 1\nspeed = 3\n"),
            "test.toml: there is no setting 'speed'; see `starling train --help` for those there "
            "are");
  EXPECT_EQ(read_error("settings = 3"),
            "test.toml: there is no setting 'settings'; see `starling train --help` for those "
            "there are");
}

// For every setting: other types, and numbers just out of its range.
struct Spoiler {
  void refuse(const char* name, const std::string& value, const std::string& why) const {
    EXPECT_EQ(read_error(fmt::format("{} = {}", name, value)),
              fmt::format("test.toml: {} {}", name, why))
        << value;
  }
  void accept(const char* name, const std::string& value) const {
    EXPECT_EQ(read_error(fmt::format("{} = {}", name, value)), "no error") << name;
  }
  void operator()(const Setting& setting, const std::string&) const {
    for (const char* value : {"3", "1.5", "true", "[\"a\"]", "1979-05-27"}) {
      refuse(setting.name, value, "must be a text in quotes");
    }
    accept(setting.name, "\"\"");
  }
  template <NamedEnum Choice>
  void operator()(const Setting& setting, Choice) const {
    for (const char* value : {"3", "1.5", "true", "[\"a\"]", "1979-05-27"}) {
      refuse(setting.name, value, "must be a text in quotes");
    }
    for (const std::string_view name : names_of(Choice{}).each) {
      accept(setting.name, fmt::format("\"{}\"", name));
      EXPECT_NE(setting.help.find(name), std::string::npos) << setting.help;
    }
    EXPECT_EQ(read_error(fmt::format("{} = ''", setting.name)),
              fmt::format("there is no {} ''; there are {}", names_of(Choice{}).what,
                          names_listed<Choice>()));
  }
  void operator()(const Setting& setting, bool) const {
    for (const char* value : {"\"true\"", "1", "0.0", "[true]"}) {
      refuse(setting.name, value, "must be true or false");
    }
    accept(setting.name, "true");
    accept(setting.name, "false");
  }
  void operator()(const Setting& setting, int, int low, int high) const {
    const std::string why = fmt::format("must be a whole number from {} to {}", low, high);
    for (const char* value : {"\"3\"", "1.5", "3.0", "true", "[3]"})
      refuse(setting.name, value, why);
    refuse(setting.name, fmt::format("{}", low - 1), why);
    refuse(setting.name, fmt::format("{}", high + 1LL), why);
    refuse(setting.name, "4294967297", why);  // 1 in 32 bits
    accept(setting.name, fmt::format("{}", low));
    accept(setting.name, fmt::format("{}", high));
  }
  void operator()(const Setting& setting, double, double low, double high) const {
    const std::string why = fmt::format("must be a number from {} to {}", low, high);
    for (const char* value : {"\"0.5\"", "true", "[0.5]", "nan", "inf", "-inf"}) {
      refuse(setting.name, value, why);
    }
    refuse(setting.name, fmt::format("{:.6f}", low - 1e-6), why);
    refuse(setting.name, fmt::format("{:.6f}", high + std::max(1e-6, 1e-9 * high)), why);
    accept(setting.name, fmt::format("{}", low));
    accept(setting.name, fmt::format("{}", high));
  }
};

TEST(Settings, RefuseOtherTypesAndNumbersOutOfRange) {
  const Settings settings;
  visit_settings(settings, Spoiler{});
}

TEST(Settings, NameTheLineThatIsNoToml) {
  for (const char* toml :
       {"workers = 4\nlr = \n", "workers = 4\nlr = 0.1.2\n", "workers = 4\nworkers = 5\n",
        "lr = 1\nworkers = 99999999999999999999", "lr = 1\nstrategy = 'open"}) {
    const std::string error = read_error(toml);
    EXPECT_EQ(error.find("test.toml:2: "), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << "more than one line: " << error;
    EXPECT_GT(error.size(), std::string("test.toml:2: ").size());
  }
}

// check_settings

std::string check(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  return error_of([&] { check_settings(settings); });
}

TEST(CheckSettings, AcceptsTheDefaults) { EXPECT_NO_THROW(check_settings(Settings())); }

TEST(CheckSettings, AcceptsWhatGoesTogether) {
  const std::vector<std::function<void(Settings&)>> good = {
      [](Settings& s) { s.strategy = StrategyKind::allreduce, s.exchange = "halving-doubling"; },
      [](Settings& s) { s.strategy = StrategyKind::allreduce, s.backward_passes = 4; },
      [](Settings& s) {
        s.strategy = StrategyKind::pairwise, s.mix.graph.passes = 3, s.schedule.period = 10;
      },
      [](Settings& s) { s.strategy = StrategyKind::exponential, s.schedule.period = 10; },
      [](Settings& s) { s.strategy = StrategyKind::local, s.schedule.period = 10; },
      [](Settings& s) { s.strategy = StrategyKind::single, s.workers = 1; },
      [](Settings& s) { s.workers = 1; },
      [](Settings& s) { s.workers = 2; },
      [](Settings& s) {
        s.optimizer.kind = OptimizerSettings::Kind::adam,
        s.train.data = TrainSettings::Data::synthetic, s.train.until = "accuracy=0.9";
      },
  };
  for (const auto& change : good) EXPECT_EQ(check(change), "no error");
}

TEST(CheckSettings, RefusesAStrategyThatIsNone) {
  for (const char* name : {"pairwse", "", "all", "reduce", "Pairwise", "allreduce,", " allreduce",
                           "allreduce, pairwise"}) {
    EXPECT_EQ(
        read_error(fmt::format("strategy = '{}'", name)),
        fmt::format("there is no strategy '{}'; there are {}", name, names_listed<StrategyKind>()));
  }
}

TEST(CheckSettings, RefusesAnExchangeThatIsNone) {
  EXPECT_EQ(
      check([](Settings& s) { s.strategy = StrategyKind::allreduce, s.exchange = "star"; }),
      "there is no exchange 'star'; there are auto, naive, tree, scatter-reduce, ring, doubling, "
      "halving-doubling, all-to-all");
}

TEST(CheckSettings, RefusesPassesWithoutPairwise) {
  for (const char* strategy : {"allreduce", "exponential", "local", "single"}) {
    EXPECT_EQ(check([&](Settings& s) {
                s.strategy = named<StrategyKind>(strategy), s.mix.graph.passes = 2;
              }),
              "passes = 2 has no effect here: it goes with strategy pairwise, and mix with graph "
              "window; leave it at 1, or use backward_passes to sum the gradients of several "
              "batches");
  }
}

TEST(CheckSettings, RefusesAMeaningOfPassesWhereThereAreNone) {
  const std::function<void(Settings&)> changes[] = {
      [](Settings& s) { s.strategy = StrategyKind::exponential; },
      [](Settings& s) {
        s.strategy = StrategyKind::mix, s.mix.graph.kind = GraphSettings::Kind::mesh;
      },
      [](Settings& s) {
        s.strategy = StrategyKind::mix, s.mix.rule = MixingSettings::Rule::push_sum;
      },
      [](Settings& s) { s.schedule.kind = ScheduleSettings::Kind::async; },
  };
  for (const auto& change : changes) {
    EXPECT_EQ(
        check([&](Settings& s) {
          change(s), s.mix.graph.passes_mean = GraphSettings::Passes::group;
        }),
        "passes_mean = group has no effect here: it goes with strategy pairwise, and mix with "
        "graph window, by mixing mean in schedule sync; leave it at window");
  }
  EXPECT_EQ(read_error("passes_mean = 'ring'"),
            "there is no meaning of passes 'ring'; there are window, repeat, group");
}

TEST(CheckSettings, RefusesACodecWherePassesMeanSomethingElseThanAWindow) {
  for (const char* meaning : {"repeat", "group"}) {
    EXPECT_EQ(
        check([&](Settings& s) {
          s.mix.graph.passes_mean = named<GraphSettings::Passes>(meaning);
          s.mix.codec.kind = CodecSettings::Kind::half;
        }),
        fmt::format("passes_mean = {} sends whole weights, not codec half's differences to "
                    "the same neighbours in every round; use passes_mean window, or leave out "
                    "the codec",
                    meaning));
  }
}

TEST(CheckSettings, RefusesMorePassesThanThereAreOthers) {
  for (const char* meaning : {"window", "repeat", "group"}) {
    EXPECT_EQ(check([&](Settings& s) {
                s.mix.graph.passes = 4,
                s.mix.graph.passes_mean = named<GraphSettings::Passes>(meaning);
              }),
              std::string("passes = 4 needs more than 4 workers; it goes from 1 to 3") +
                  (meaning == std::string("repeat") ? "" : ", which averages over all"));
  }
  EXPECT_EQ(check([](Settings& s) { s.mix.graph.passes = 4; }),
            "passes = 4 needs more than 4 workers; it goes from 1 to 3, which averages over all");
  EXPECT_EQ(check([](Settings& s) { s.workers = 2, s.mix.graph.passes = 2; }),
            "passes = 2 needs more than 2 workers; it can only be 1");
  EXPECT_EQ(check([](Settings& s) { s.workers = 1, s.mix.graph.passes = 2; }),
            "passes = 2 needs more than 1 workers; it can only be 1");
}

TEST(CheckSettings, RefusesAPeriodWhereItHasNoMeaning) {
  for (const char* strategy : {"single", "allreduce", "server", "ring-leader"}) {
    EXPECT_EQ(check([&](Settings& s) {
                s.strategy = named<StrategyKind>(strategy), s.schedule.period = 2;
              }),
              "period = 2 has no effect here: it goes with strategies mix, pairwise, exponential "
              "and local; leave it at 1");
  }
}

TEST(CheckSettings, RefusesAnExchangeWithoutAllreduce) {
  for (const char* strategy : {"pairwise", "exponential", "local", "single"}) {
    EXPECT_EQ(
        check(
            [&](Settings& s) { s.strategy = named<StrategyKind>(strategy), s.exchange = "tree"; }),
        "exchange = tree has no effect here: it goes with strategy allreduce with codec raw; leave "
        "it at auto");
  }
  EXPECT_EQ(check([](Settings& s) {
              s.strategy = StrategyKind::allreduce, s.exchange = "tree",
              s.mix.codec.kind = CodecSettings::Kind::half;
            }),
            "exchange = tree has no effect here: it goes with strategy allreduce with codec raw; "
            "leave it at auto");
}

using Changes = std::vector<std::pair<std::string, std::string>>;

// Every setting is in the list, or read by everybody, or tested elsewhere.
struct Listed {
  const Changes& all;
  template <class... Value>
  void operator()(const Setting& setting, const Value&...) const {
    const std::string name = setting.name;
    const bool listed = std::ranges::any_of(
        all, [&](const auto& each) { return each.first.starts_with(name + " "); });
    const bool elsewhere = name == "graph_file" || name == "replicas";
    EXPECT_EQ(listed || elsewhere, !setting.use.with.empty()) << name;
  }
};

// One setting that is changed, and what makes it one that is read.
TEST(CheckSettings, RefusesASettingThatNobodyReadsAndTakesItWhereSomebodyDoes) {
  const std::string mix = "strategy = 'mix'\n", server = "strategy = 'server'\n";
  const std::string async = mix + "schedule = 'async'\n";
  const Changes all = {
      {"keep_checkpoints = 2", "checkpoint_every = '30s'"},
      {"min_workers = 2", "elastic = true"},
      {"max_workers = 9", "elastic = true"},
      {"passes = 2", mix},
      {"passes_mean = 'group'", mix},
      {"passes_mean = 'repeat'", "strategy = 'pairwise'"},
      {"period = 2", "strategy = 'local'"},
      {"exchange = 'tree'", "strategy = 'allreduce'"},
      {"micro_batches = 8", "pipeline = 2"},
      {"pipeline_schedule = 'gpipe'", "pipeline = 2"},
      {"recompute = true", "pipeline = 4"},
      {"stages = '0-1,2-3'", "pipeline = 2"},
      {"graph = 'mesh'", mix},
      {"arity = 3", mix + "graph = 'tree'"},
      {"mixing = 'outer'", mix},
      {"mixing_step = 0.1", "strategy = 'exponential'"},
      {"alpha = 0.1", async + "mixing = 'elastic'"},
      {"alpha = 0.1", async + "mixing = 'elastic-push'"},
      {"beta = 0.1", async + "mixing = 'elastic'"},
      {"periods_up = '6'", async + "graph = 'tree'\nmixing = 'elastic-push'"},
      {"periods_down = '6'", async + "graph = 'tree'\nmixing = 'elastic-push'"},
      {"merge_weights = '1, 2, 1'", mix + "graph = 'closed-ring'"},
      {"outer_lr = 0.1", mix + "mixing = 'outer'"},
      {"outer_momentum = 0.1", mix + "mixing = 'outer'"},
      {"client_share = 0.5", mix + "graph = 'star'\nmixing = 'sampled'"},
      {"penalty = 0.5", async + "graph = 'star'\nmixing = 'penalty'"},
      {"schedule = 'async'", mix},
      {"probability = 0.5", "strategy = 'pairwise'"},
      {"compute_ratio = 5", "strategy = 'pairwise'"},
      {"ahead_bound = 3", mix + "schedule = 'bounded'"},
      {"overlap = true", "strategy = 'pairwise'"},
      {"codec = 'half'", "strategy = 'pairwise'"},
      {"codec_share = 0.1", "codec = 'top-k'"},
      {"codec_threshold = 0.1", "codec = 'threshold'"},
      {"codec_adaptive = true", "codec = 'threshold'"},
      {"codec_share = 0.1", "codec = 'random'"},
      {"codec_levels = 3", "codec = 'quantized'"},
      {"codec_levels = 3", "codec = 'hierarchical'"},
      {"codec_block = 64", "codec = 'quantized'"},
      {"codec_block = 64", "codec = 'hierarchical'"},
      {"codec_block = 64", "codec = 'sign'"},
      {"codec_rank = 2", "codec = 'low-rank'"},
      {"codec_feedback = false", "codec = 'half'"},
      {"codec_entropy = true", "codec = 'half'"},
      {"servers = 2", server},
      {"placement = 'workers'", server},
      {"group = 2", server},
      {"gate = 'async'", server},
      {"delay_bound = 9", server + "gate = 'ssp'"},
      {"value_bound = 9", server + "gate = 'value'"},
      {"quorum = 2", server + "gate = 'quorum'"},
      {"quorum = 2", server + "gate = 'softsync'"},
      {"epoch_share = 0.5", server},
      {"staleness = 'scale'", server},
      {"compensation = 0.5", server + "staleness = 'compensate'"},
      {"push_every = 2", server},
      {"fetch_every = 2", server},
      {"lag = 1", server},
      {"eager = true", server},
      {"factors = true", server},
      {"momentum = 0.1", "optimizer = 'nesterov'"},
      {"lr_step = 5", "lr_schedule = 'step'"},
      {"lr_decay = 0.5", "lr_schedule = 'step'"},
      {"lr_end = 0.5", "lr_schedule = 'cosine'"},
      {"shard_alpha = 0.1", "shards = 'dirichlet'"},
      {"adam_beta1 = 0.8", "optimizer = 'adam'\nmomentum = 0.0"},
      {"adam_beta2 = 0.9", "optimizer = 'adamw'\nmomentum = 0.0"},
      {"layers = 3", "model = 'char-gpt'\ndata = 'kjv'"},
      {"width = 64", "model = 'char-gpt'\ndata = 'kjv'"},
      {"heads = 2", "model = 'char-gpt'\ndata = 'text'"},
      {"context = 3", "model = 'char-gpt'\ndata = 'kjv'"},
      {"depth = 9", "model = 'resnet'"},
      {"channels = 3", "model = 'local-net'"},
      {"norm = 'batch'", "model = 'resnet'"},
  };
  const std::string nobody = "strategy = 'single'\noptimizer = 'adagrad'\n";
  for (const auto& [changed, with] : all) {
    const auto checked = [&, change = changed](const std::string& rest) {
      return error_of([&] {
        Settings settings;
        read_settings(rest + "\n" + change, "test.toml", settings);
        check_settings(settings);
      });
    };
    EXPECT_EQ(checked(with), "no error") << changed;
    const std::string error = checked(nobody);
    const std::string name = changed.substr(0, changed.find(' '));
    EXPECT_EQ(error.find(name + " = "), 0u) << error;
    EXPECT_NE(error.find(" has no effect here: it goes with "), std::string::npos) << error;
    EXPECT_NE(error.find("; leave it "), std::string::npos) << error;  // out, or at what it is
  }
  const Settings defaults;
  visit_settings(defaults, Listed{all});
}

TEST(CheckSettings, RefusesAnOptimizerOrDataSetThatIsNone) {
  EXPECT_EQ(read_error("optimizer = 'lbfgs'"),
            "there is no optimizer 'lbfgs'; there are sgd, nesterov, adagrad, adam, adamw");
  EXPECT_EQ(check([](Settings& s) {
              s.optimizer.kind = OptimizerSettings::Kind::nesterov, s.optimizer.momentum = 0;
            }),
            "nesterov needs a momentum; use --momentum 0.9, or optimizer sgd");
  EXPECT_EQ(read_error("data = 'cifar'"),
            "there is no data set 'cifar'; there are mnist, fashion-mnist, synthetic, kjv, "
            "text");
}

TEST(CheckSettings, RefusesAModelThatDoesNotTakeTheData) {
  EXPECT_EQ(check([](Settings& s) { s.train.model = "char-gpt"; }),
            "model = char-gpt does not take data = mnist; give it text: --data kjv, or text");
  EXPECT_EQ(check([](Settings& s) { s.train.data = TrainSettings::Data::kjv; }),
            "model = mnist-cnn does not take data = kjv; text is for --model char-gpt");
  EXPECT_EQ(check([](Settings& s) {
              s.train.model = "resnet", s.train.data = TrainSettings::Data::text;
            }),
            "model = resnet does not take data = text; text is for --model char-gpt");
  const auto deep = [](const char* model, int depth) {
    return [=](Settings& s) { s.train.model = model, s.train.network.depth = depth; };
  };
  EXPECT_EQ(check(deep("resnet", 30)), "no error");
  EXPECT_EQ(check(deep("local-net", 4)), "no error");
  EXPECT_EQ(check(deep("local-net", 5)),
            "depth = 5 leaves nothing of an image in local-net; each layer halves its sides: use 4 "
            "at the most");
  EXPECT_EQ(read_error("norm = 'layer'"), "there is no norm 'layer'; there are group, batch");
  EXPECT_NE(read_error("depth = 0").find("depth"), std::string::npos);
  const auto with_heads = [](int heads) {
    return [heads](Settings& s) {
      s.train.model = "char-gpt", s.train.data = TrainSettings::Data::kjv;
      s.train.network.heads = heads;
    };
  };
  EXPECT_EQ(check(with_heads(8)), "no error");
  for (int heads : {3, 128}) {  // 128: each would have one number, and no pair to turn
    EXPECT_EQ(check(with_heads(heads)),
              fmt::format("width = 128 cannot be shared out among {} heads in pairs of numbers; "
                          "make it a multiple of twice as many",
                          heads));
  }
}

std::string check_server(const std::function<void(Settings&)>& change) {
  return check([&](Settings& s) {
    s.strategy = StrategyKind::server;
    change(s);
  });
}

TEST(CheckSettings, TakesWhatServersCanDo) {
  const std::vector<std::function<void(Settings&)>> good = {
      [](Settings&) {},
      [](Settings& s) {
        s.server.servers = 0, s.server.placement = ServerSettings::Placement::workers;
      },
      [](Settings& s) { s.server.servers = 7; },
      [](Settings& s) {
        s.server.gate.kind = GateSettings::Kind::ssp, s.server.gate.delay_bound = 0;
      },
      [](Settings& s) {
        s.server.gate.kind = GateSettings::Kind::quorum, s.server.gate.quorum = 4;
      },
      [](Settings& s) { s.server.gate.kind = GateSettings::Kind::ssp, s.server.eager = true; },
      [](Settings& s) {
        s.server.gate.kind = GateSettings::Kind::async, s.server.push_every = 2,
        s.server.fetch_every = 3;
      },
      [](Settings& s) {
        s.server.gate.kind = GateSettings::Kind::async, s.server.lag = 2,
        s.server.staleness.kind = StalenessRule::Kind::scale;
      },
      [](Settings& s) {
        s.server.gate.kind = GateSettings::Kind::softsync, s.server.gate.quorum = 2,
        s.server.gate.epoch_share = 0.5, s.server.group = 2;
      },
      [](Settings& s) { s.server.group = 0; },
      [](Settings& s) { s.slow = "3:5"; },
  };
  for (const auto& change : good) EXPECT_EQ(check_server(change), "no error");
}

TEST(CheckSettings, RefusesWhatServersCannotDo) {
  EXPECT_EQ(read_error("gate = 'bps'"),
            "there is no gate 'bps'; there are bsp, ssp, async, value, quorum, softsync");
  EXPECT_EQ(read_error("placement = 'moon'"),
            "there is no placement 'moon'; there are apart, workers");
  EXPECT_EQ(read_error("staleness = 'ignore'"),
            "there is no way to handle staleness 'ignore'; there are plain, scale, compensate");
  EXPECT_EQ(check_server([](Settings& s) {
              s.server.gate.kind = GateSettings::Kind::quorum, s.server.gate.quorum = 5;
            }),
            "quorum = 5 can never be reached by 4 workers; it goes from 1 to 4");
  EXPECT_EQ(check_server([](Settings& s) {
              s.server.servers = 5, s.server.placement = ServerSettings::Placement::workers;
            }),
            "5 servers do not fit on 4 workers; with placement = workers there can be 1 to 4");
  EXPECT_EQ(
      check_server([](Settings& s) { s.server.replicas = 2; }),
      "replicas = 2: a shard cannot be on more servers than the 1 there is; replicas goes from "
      "1 to 1");
  EXPECT_EQ(check_server([](Settings& s) { s.server.servers = 3, s.server.replicas = 4; }),
            "replicas = 4: a shard cannot be on more servers than the 3 there are; replicas goes "
            "from 1 to 3");
  EXPECT_EQ(check_server([](Settings& s) { s.server.group = 3; }),
            "4 workers cannot be shared out evenly in groups of 3; group must divide workers");
  EXPECT_EQ(check_server([](Settings& s) {
              s.server.gate.kind = GateSettings::Kind::value, s.server.lag = 1;
            }),
            "a value bound and delay compensation need to know what each worker computes on; leave "
            "out push_every, fetch_every, lag and eager");
  EXPECT_EQ(check_server([](Settings& s) { s.server.eager = true, s.server.fetch_every = 2; }),
            "eager weights need no fetching; leave out fetch_every, or eager");
  EXPECT_EQ(
      check_server([](Settings& s) { s.server.factors = true, s.server.push_every = 2; }),
      "factors are of one batch of one worker; leave out push_every, lag, backward_passes and "
      "group, or factors");
  EXPECT_EQ(check([](Settings& s) { s.server.gate.kind = GateSettings::Kind::async; }),
            "gate = async has no effect here: it goes with strategy server; leave it at bsp");
}

TEST(CheckSettings, RefusesEveryWayOfGoingOnWhereStepsMustBePlain) {
  using Change = std::function<void(Settings&)>;
  const Change seldom_pushes = [](Settings& s) { s.server.push_every = 2; };
  const Change seldom_fetches = [](Settings& s) { s.server.fetch_every = 2; };
  const Change lags = [](Settings& s) { s.server.lag = 1; };
  const Change eager = [](Settings& s) { s.server.eager = true; };
  const Change sums_up = [](Settings& s) { s.backward_passes = 2; };
  const Change in_groups = [](Settings& s) { s.server.group = 2; };
  struct Case {
    const char* error;
    Change first;
    std::vector<Change> seconds;
  };
  for (const Case& refused : {
           Case{"a value bound and delay compensation need to know",
                [](Settings& s) { s.server.gate.kind = GateSettings::Kind::value; },
                {seldom_pushes, seldom_fetches, lags, eager}},
           Case{"a value bound and delay compensation need to know",
                [](Settings& s) {
                  s.server.gate.kind = GateSettings::Kind::async,
                  s.server.staleness.kind = StalenessRule::Kind::compensate;
                },
                {seldom_pushes, seldom_fetches, lags, eager}},
           Case{"workers of a group go step by step",
                in_groups,
                {seldom_pushes, seldom_fetches, lags, eager}},
           Case{"lag = 1 needs a push and a fetch in every step",
                lags,
                {seldom_pushes, seldom_fetches, eager}},
           Case{"factors are of one batch of one worker",
                [](Settings& s) { s.server.factors = true; },
                {seldom_pushes, lags, sums_up, in_groups}},
       }) {
    for (std::size_t i = 0; i < refused.seconds.size(); ++i) {
      const std::string error = check_server([&](Settings& s) {
        refused.first(s);
        refused.seconds[i](s);
      });
      EXPECT_EQ(error.find(refused.error), 0u) << "with the second one " << i << ": " << error;
    }
  }
}

// Mixing

std::string check_mixing(const std::function<void(Settings&)>& change) {
  return check([&](Settings& s) {
    s.strategy = StrategyKind::mix;
    change(s);
  });
}

TEST(CheckSettings, TakesMixingsThatGoTogether) {
  const std::vector<std::function<void(Settings&)>> good = {
      [](Settings&) {},
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::closed_ring, s.schedule.overlap = true;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::star, s.schedule.compute_ratio = 5;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::exponential,
        s.mix.rule = MixingSettings::Rule::push_sum, s.schedule.overlap = true;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::mesh, s.mix.rule = MixingSettings::Rule::outer,
        s.schedule.period = 16;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::star, s.mix.rule = MixingSettings::Rule::sampled,
        s.mix.client_share = 0.1;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::star, s.mix.rule = MixingSettings::Rule::elastic,
        s.schedule.kind = ScheduleSettings::Kind::async;
      },
      [](Settings& s) {
        s.mix.rule = MixingSettings::Rule::elastic,
        s.schedule.kind = ScheduleSettings::Kind::bounded, s.mix.alpha = 0.5;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::tree,
        s.mix.rule = MixingSettings::Rule::elastic_push,
        s.schedule.kind = ScheduleSettings::Kind::async;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::tree,
        s.mix.rule = MixingSettings::Rule::elastic_push,
        s.schedule.kind = ScheduleSettings::Kind::async, s.schedule.period = 2,
        s.mix.periods_up = "8, 4", s.mix.periods_down = "6";
      },
      [](Settings& s) {
        s.mix.rule = MixingSettings::Rule::sum_weight,
        s.schedule.kind = ScheduleSettings::Kind::async, s.schedule.probability = 0.1;
      },
      [](Settings& s) {
        s.mix.rule = MixingSettings::Rule::updates, s.schedule.kind = ScheduleSettings::Kind::async,
        s.mix.codec.kind = CodecSettings::Kind::threshold;
      },
      [](Settings& s) {
        s.mix.graph.kind = GraphSettings::Kind::star, s.mix.rule = MixingSettings::Rule::penalty,
        s.schedule.kind = ScheduleSettings::Kind::bounded;
      },
      [](Settings& s) { s.schedule.kind = ScheduleSettings::Kind::async; },
      [](Settings& s) { s.mix.codec.kind = CodecSettings::Kind::half; },
      [](Settings& s) {
        s.mix.codec.kind = CodecSettings::Kind::top_k,
        s.mix.graph.kind = GraphSettings::Kind::static_exponential, s.mix.step = 0.1;
      },
      [](Settings& s) {
        s.mix.rule = MixingSettings::Rule::outer, s.mix.graph.kind = GraphSettings::Kind::mesh,
        s.mix.codec.kind = CodecSettings::Kind::sign, s.schedule.overlap = true;
      },
      [](Settings& s) {
        s.strategy = StrategyKind::allreduce, s.mix.codec.kind = CodecSettings::Kind::quantized;
      },
      [](Settings& s) {
        s.strategy = StrategyKind::pairwise, s.schedule.probability = 0.5,
        s.mix.codec.kind = CodecSettings::Kind::half;
      },
  };
  for (std::size_t i = 0; i < good.size(); ++i) EXPECT_EQ(check_mixing(good[i]), "no error") << i;
}

TEST(CheckSettings, RefusesMixingsThatDoNotGoTogether) {
  EXPECT_EQ(read_error("graph = 'circle'"),
            "there is no graph 'circle'; there are window, closed-ring, exponential, "
            "static-exponential, tree, star, mesh, file");
  EXPECT_EQ(read_error("mixing = 'median'"),
            "there is no mixing rule 'median'; there are mean, push-sum, outer, sampled, elastic, "
            "elastic-push, sum-weight, updates, penalty");
  EXPECT_EQ(read_error("schedule = 'soon'"),
            "there is no schedule 'soon'; there are sync, async, bounded");
  EXPECT_EQ(read_error("codec = 'zip'"),
            "there is no codec 'zip'; there are raw, half, bfloat, threshold, top-k, random, "
            "quantized, hierarchical, sign, low-rank");
  for (const char* mixing : {"elastic", "elastic-push", "sum-weight", "updates", "penalty"}) {
    EXPECT_EQ(check_mixing([&](Settings& s) {
                s.mix.rule = named<MixingSettings::Rule>(mixing),
                s.mix.graph.kind = GraphSettings::Kind::star;
              }),
              fmt::format("mixing = {} waits for nobody; use schedule async or bounded", mixing));
  }
  for (const char* mixing : {"push-sum", "outer", "sampled"}) {
    for (const char* schedule : {"async", "bounded"}) {
      EXPECT_EQ(check_mixing([&](Settings& s) {
                  s.mix.rule = named<MixingSettings::Rule>(mixing),
                  s.schedule.kind = named<ScheduleSettings::Kind>(schedule),
                  s.mix.graph.kind = GraphSettings::Kind::star;
                }),
                fmt::format("mixing = {} goes in rounds in which all take part; use schedule sync",
                            mixing));
    }
  }
  const std::string overlap =
      "overlap goes with rounds of mean, push-sum or outer; leave it out, or use schedule sync and "
      "mixing "
      "mean";
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.schedule.overlap = true, s.schedule.kind = ScheduleSettings::Kind::async;
            }),
            overlap);
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.schedule.overlap = true, s.mix.rule = MixingSettings::Rule::sampled,
              s.mix.graph.kind = GraphSettings::Kind::star;
            }),
            overlap);
  const std::string coded =
      "codec = top-k goes with mixing updates and outer, and with mean in schedule sync; leave it "
      "out";
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::top_k,
              s.mix.rule = MixingSettings::Rule::elastic,
              s.schedule.kind = ScheduleSettings::Kind::async;
            }),
            coded);
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::top_k,
              s.schedule.kind = ScheduleSettings::Kind::async;
            }),
            coded);
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::top_k,
              s.mix.rule = MixingSettings::Rule::push_sum;
            }),
            coded);
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::top_k,
              s.mix.rule = MixingSettings::Rule::outer;
            }),
            "coded changes are averaged over all workers; use graph mesh, or codec raw");
  const std::string changing =
      "coded differences need the same neighbours in every round; use graph static-exponential";
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::half,
              s.mix.graph.kind = GraphSettings::Kind::exponential;
            }),
            changing);
  EXPECT_EQ(check([](Settings& s) {
              s.mix.codec.kind = CodecSettings::Kind::half, s.strategy = StrategyKind::exponential;
            }),
            changing);
  for (const char* graph : {"window", "mesh", "tree"}) {
    EXPECT_EQ(check_mixing([&](Settings& s) {
                s.mix.rule = MixingSettings::Rule::sampled,
                s.mix.graph.kind = named<GraphSettings::Kind>(graph);
              }),
              "mixing = sampled goes through a centre; use graph star");
    EXPECT_EQ(check_mixing([&](Settings& s) {
                s.mix.rule = MixingSettings::Rule::penalty,
                s.mix.graph.kind = named<GraphSettings::Kind>(graph),
                s.schedule.kind = ScheduleSettings::Kind::async;
              }),
              "mixing = penalty goes through a centre; use graph star");
  }
  EXPECT_EQ(check_mixing([](Settings& s) {
              s.mix.graph.kind = GraphSettings::Kind::tree,
              s.mix.rule = MixingSettings::Rule::elastic_push,
              s.schedule.kind = ScheduleSettings::Kind::async;
              s.schedule.period = 4, s.mix.periods_down = "8, 6";
            }),
            "periods_down = '8, 6': 6 is no multiple of period = 4; make it one");
  EXPECT_EQ(check_mixing([](Settings& s) { s.mix.periods_up = "6"; }),
            "periods_up = 6 has no effect here: it goes with mixing elastic-push with graph tree; "
            "leave it out");
  const auto check_merge = [](const char* weights) {
    return check_mixing([&](Settings& s) {
      s.mix.graph.kind = GraphSettings::Kind::closed_ring, s.mix.merge_weights = weights;
    });
  };
  EXPECT_EQ(check_merge("1, 2, 1"), "no error");
  EXPECT_EQ(check_merge("0.5 0 0.25"), "no error");
  for (const char* weights : {"1", "1, 2", "0, 1, 0", "1, 1, 1, 1"}) {
    EXPECT_EQ(check_merge(weights),
              fmt::format("merge_weights = '{}' do not mix three workers; write them like '1, 2, "
                          "1': the one before, the worker itself, the one after it",
                          weights));
  }
  for (const char* weights : {"1, x, 1", "1, -2, 1", "nan, 1, 1", "1, 2, 1e7"}) {
    EXPECT_EQ(check_merge(weights),
              fmt::format("merge_weights = '{}' is not understood; write numbers from 0 to "
                          "1000000, with commas between them",
                          weights));
  }
  const auto check_elastic = [](double alpha, double beta) {
    return check_mixing([&](Settings& s) {
      s.mix.graph.kind = GraphSettings::Kind::star, s.mix.rule = MixingSettings::Rule::elastic,
      s.schedule.kind = ScheduleSettings::Kind::async, s.mix.alpha = alpha, s.mix.beta = beta;
    });
  };
  EXPECT_EQ(check_elastic(0.2, 0.2), "no error");
  EXPECT_EQ(check_elastic(0.2, 0.1), "no error");
  EXPECT_EQ(
      check_elastic(0.2, 0.3),
      "beta = 0.3 is more than alpha = 0.2: who answers would move further than who asks, and "
      "run after each; alpha must be as large as beta, or larger");
  for (const char* strategy : {"pairwise", "allreduce", "single"}) {
    EXPECT_EQ(check([&](Settings& s) {
                s.strategy = named<StrategyKind>(strategy),
                s.mix.graph.kind = GraphSettings::Kind::mesh;
              }),
              "graph = mesh has no effect here: it goes with strategy mix; leave it at window");
  }
  EXPECT_EQ(check([](Settings& s) {
              s.strategy = StrategyKind::ring_leader, s.mix.codec.kind = CodecSettings::Kind::half;
            }),
            "codec = half has no effect here: it goes with strategies allreduce, server, mix, "
            "pairwise, exponential and local; leave it at raw");
  const auto check_server = [](auto change) {
    return check([&](Settings& s) {
      s.strategy = StrategyKind::server;
      s.mix.codec.kind = CodecSettings::Kind::sign;
      change(s);
    });
  };
  EXPECT_EQ(check_server([](Settings&) {}), "no error");
  EXPECT_EQ(check_server([](Settings& s) { s.mix.codec.kind = CodecSettings::Kind::low_rank; }),
            "codec = low-rank needs whole matrices, and servers hold blocks of them; use strategy "
            "allreduce, or another codec");
  EXPECT_EQ(check_server([](Settings& s) { s.mix.codec.kind = CodecSettings::Kind::threshold; }),
            "one threshold does not fit both gradients and what they change weights by; set "
            "codec_adaptive, or use codec top-k");
  EXPECT_EQ(check_server([](Settings& s) { s.server.factors = true; }),
            "codec = sign codes gradients, and factors are sent instead; leave out one of them");
  EXPECT_EQ(check_server([](Settings& s) { s.server.eager = true; }),
            "codec = sign codes what a worker asks for, and eager weights go unasked; leave out "
            "one of them");
}

TEST(CheckSettings, RefusesAGraphFileThatIsMissingOrConnectsNotAll) {
  const auto check_graph = [](const std::string& file) {
    return check_mixing([&](Settings& s) {
      s.mix.graph.kind = GraphSettings::Kind::file, s.mix.graph.file = file;
    });
  };
  EXPECT_EQ(check_graph(""), "graph = file needs a file; name it with graph_file");
  EXPECT_EQ(check_mixing([](Settings& s) { s.mix.graph.file = "a.txt"; }),
            "graph_file = a.txt has no effect here: it goes with strategy mix with graph file; "
            "leave it out");
  const TemporaryFolder folder;
  const std::string path = folder.path() / "graph.txt";
  const auto one_line_with_remedy = [&](const std::string& error) {
    EXPECT_NE(error, "no error");
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_NE(error.find("; "), std::string::npos) << error;
    EXPECT_NE(error.find(path), std::string::npos) << error;
  };
  one_line_with_remedy(check_graph(path));
  for (const char* graph : {"0 1\n2 3\n", "0 -> 1\n1 -> 2\n2 -> 3\n", "0 1\n1 2\n2 9\n"}) {
    std::ofstream(path) << graph;
    one_line_with_remedy(check_graph(path));
  }
  std::ofstream(path) << "0 1\n1 2\n2 3\n";
  EXPECT_EQ(check_graph(path), "no error");
}

TEST(CheckSettings, NumbersOfMixingsOutOfRangeAreRefusedByName) {
  for (const char* toml :
       {"alpha = 0", "alpha = 0.6", "beta = 0.6", "probability = 0", "probability = 1.5",
        "period = 0", "ahead_bound = 0", "client_share = 0", "mixing_step = 0", "arity = 0",
        "codec_share = 0", "codec_share = 1.1", "codec_levels = 0", "codec_levels = 128",
        "codec_block = 7", "codec_rank = 0", "codec_rank = 65", "penalty = -1",
        "compute_ratio = -1"}) {
    const std::string error = read_error(toml);
    const std::string name = std::string(toml).substr(0, std::string(toml).find(' '));
    EXPECT_EQ(error.find("test.toml: " + name + " must be a "), 0u) << error;
  }
}

TEST(CheckSettings, RefusesASlowWorkerThatIsNotUnderstood) {
  for (const char* slow : {"3", "3:", ":5", "3:x", "-1:5", "3:0.5", "3:5:1", "3:2000"}) {
    EXPECT_EQ(check([&](Settings& s) { s.slow = slow; }),
              fmt::format("slow = '{}' is not understood; write it like 3:5, for worker 3 slowed "
                          "five times (1 to 1000)",
                          slow));
  }
  EXPECT_EQ(check([](Settings& s) { s.slow = "4:2"; }),
            "slow = '4:2': there is no worker 4; workers are counted from 0 to 3");
}

TEST(CheckSettings, RefusesAGoalThatIsNotUnderstood) {
  EXPECT_EQ(check([](Settings& s) { s.train.until = "loss=0"; }),
            "until = 'loss=0' is not understood; write it like accuracy=0.97, or loss=2.2");
}

TEST(Target, IsReachedFromItsOwnSide) {
  TrainSettings settings;
  settings.until = "accuracy=0.9";
  EXPECT_TRUE(target_of(settings)->reached(0.9, 5));
  EXPECT_FALSE(target_of(settings)->reached(0.89, 0));
  settings.until = "loss=2.2";
  EXPECT_TRUE(target_of(settings)->reached(0, 2.2));
  EXPECT_FALSE(target_of(settings)->reached(1, 2.21));
}

TEST(Target, IsReadFromUntil) {
  Settings settings;
  EXPECT_FALSE(target_of(settings.train));
  settings.train.until = "accuracy=0.97";
  EXPECT_EQ(target_of(settings.train)->value, 0.97);
  settings.train.until = "accuracy=1";
  EXPECT_EQ(target_of(settings.train)->value, 1.0);
}

TEST(Target, RefusesWhatIsNoShare) {
  for (const char* until :
       {"0.97", "accuracy", "accuracy=", "accuracy=0", "accuracy=-0.5", "accuracy=97",
        "accuracy=1.01", "accuracy=0.97x", "accuracy= 0.97", "loss", "loss=-1", "loss=x",
        "accuracy=97%", "accuracy=nan", "Accuracy=0.97", " accuracy=0.97"}) {
    Settings settings;
    settings.train.until = until;
    EXPECT_EQ(
        error_of([&] { target_of(settings.train); }),
        fmt::format("until = '{}' is not understood; write it like accuracy=0.97, or loss=2.2",
                    until));
  }
}

TEST(Advice, SaysWhenAveragingOverAllSendsLess) {
  Settings settings;
  settings.mix.graph.passes = 2;
  EXPECT_EQ(advice(settings),
            "passes = 2 sends 2.00 times the weights a round; averaging over all 4 workers (passes "
            "= 3) sends only 1.50 times");
}

TEST(Advice, KnowsWhatPassesMean) {
  Settings settings;
  settings.mix.graph.passes = 3;
  settings.mix.graph.passes_mean = GraphSettings::Passes::repeat;
  EXPECT_EQ(advice(settings),
            "passes = 3 sends 3.00 times the weights a round; averaging over all 4 workers (passes "
            "= 3, passes_mean = window) sends only 1.50 times");
  settings.mix.graph.passes_mean = GraphSettings::Passes::group;
  for (settings.mix.graph.passes = 1; settings.mix.graph.passes < 4; ++settings.mix.graph.passes) {
    EXPECT_EQ(advice(settings), std::nullopt) << "no group sends more than all together";
  }
  settings.workers = settings.mix.graph.passes = 1;
  for (const char* meaning : {"window", "repeat", "group"}) {
    settings.mix.graph.passes_mean = named<GraphSettings::Passes>(meaning);
    EXPECT_EQ(advice(settings), std::nullopt) << "who is alone sends nothing";
  }
}

TEST(Advice, IsSilentWhereThereIsNothingToGain) {
  Settings settings;
  EXPECT_EQ(advice(settings), std::nullopt) << "passes 1 of 4";
  settings.mix.graph.passes = 3;
  EXPECT_EQ(advice(settings), std::nullopt) << "that is all of them already";
  for (const char* strategy : {"allreduce", "exponential", "local", "single"}) {
    settings = {};
    settings.strategy = named<StrategyKind>(strategy);
    EXPECT_EQ(advice(settings), std::nullopt) << strategy;
  }
}

// A window of m ranks takes floor(log2 m) + popcount(m) - 1 vectors, all take 2 (n-1)/n.
TEST(Advice, IsGivenExactlyWhereTheWindowSendsMoreThanAll) {
  Settings settings;
  for (settings.workers = 1; settings.workers <= 40; ++settings.workers) {
    for (settings.mix.graph.passes = 1;
         settings.mix.graph.passes <= std::max(1, settings.workers - 1);
         ++settings.mix.graph.passes) {
      const auto window = static_cast<unsigned>(settings.mix.graph.passes + 1);
      const double ours = std::bit_width(window) - 1 + std::popcount(window) - 1;
      const double all = 2.0 * (settings.workers - 1) / settings.workers;
      const bool is_all = settings.mix.graph.passes >= settings.workers - 1;
      EXPECT_EQ(advice(settings).has_value(), !is_all && ours > all)
          << settings.mix.graph.passes << " of " << settings.workers;
    }
  }
}

TEST(Advice, WarnsOfLargeMixingStepsWhereCodesAreFarOff) {
  using Kind = CodecSettings::Kind;
  Settings settings;
  const auto advises = [&](Kind codec, bool feedback) {
    settings.mix.codec.kind = codec;
    settings.mix.codec.feedback = feedback;
    const auto said = advice(settings);
    return said && said->find("0.05 is safe") != std::string::npos;
  };
  for (const Kind codec : {Kind::top_k, Kind::threshold, Kind::random}) {
    EXPECT_TRUE(advises(codec, true));
    EXPECT_TRUE(advises(codec, false));
  }
  for (const Kind codec : {Kind::quantized, Kind::hierarchical}) {
    EXPECT_TRUE(advises(codec, false)) << "what is drawn is amplified";
    EXPECT_FALSE(advises(codec, true));
  }
  EXPECT_FALSE(advises(Kind::half, false));
  settings.mix.step = 0.05;
  EXPECT_FALSE(advises(Kind::random, false));
}

// Machines need not have their files in the same places, but the same files.
TEST(Settings, ThatMachinesMustHaveAlikeNameWhatIsInAFile) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, const char* text) {
    std::ofstream(folder.path() / name) << text;
    return (folder.path() / name).string();
  };
  Settings here, there;
  here.train.data_folder = "/here";
  there.train.data_folder = "/there";
  here.slow = "1:2";
  here.train.model = file("here.pt", "a model");
  there.train.model = file("there.pt", "a model");
  EXPECT_EQ(agreed_settings(here), agreed_settings(there));
  EXPECT_NE(agreed_settings(here).find("model = 'a file of 7 bytes, "), std::string::npos)
      << agreed_settings(here);
  there.train.model = file("there.pt", "A model");
  EXPECT_NE(agreed_settings(here), agreed_settings(there));
  there = here;
  there.optimizer.lr = 0.9;
  EXPECT_NE(agreed_settings(here), agreed_settings(there));
  EXPECT_NE(agreed_settings(here).find("lr = 0.1\n"), std::string::npos) << agreed_settings(here);
}

TEST(Advice, SaysWhichWayCodesGoWhereAnotherSendsFewer) {
  using Kind = CodecSettings::Kind;
  Settings settings;
  settings.strategy = StrategyKind::allreduce;
  settings.mix.codec.kind = Kind::threshold;
  EXPECT_EQ(advice(settings),
            "codes by a threshold are gathered, 3 a worker in every step; those of other codecs go "
            "through owners, 1.50 a worker");
  for (const Kind codec : {Kind::top_k, Kind::quantized, Kind::sign}) {
    settings.mix.codec.kind = codec;
    EXPECT_EQ(advice(settings), std::nullopt);
  }
  settings.strategy = StrategyKind::local;
  EXPECT_EQ(advice(settings),
            "a coded mean over a mesh sends 3 codes a round; strategy mix with mixing outer, "
            "outer_lr 1 and outer_momentum 0 sends 1.50");
  settings.workers = 2;
  EXPECT_EQ(advice(settings), std::nullopt);
  settings.mix.codec.kind = Kind::top_k;
  EXPECT_NE(advice(settings)->find("0.05 is safe"), std::string::npos);
}

}  // namespace
}  // namespace starling
