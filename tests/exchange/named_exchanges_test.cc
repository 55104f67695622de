// Exchanges that meet by name, in the simulator: many ranks, each with an order of its own, beside plain
// sums; what differs, what never comes, who joins and who leaves.
#include "exchange/named_exchanges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "exchange/adasum.h"
#include "runtime/all.h"
#include "sim/cluster.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
constexpr NamedExchanges::Limits kLimits{60s, 4096, 300};  // some go with their request, some fused
constexpr int kGroupSizes[] = {1, 2, 3, 5, 8, 13};

std::string words_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// One rank's side of an exchange, with its memory.
struct Side {
  NamedRequest request;
  std::vector<std::vector<float>> in, out;
  SharedExchange exchange;

  Side(Act act, const std::string& name, std::vector<std::vector<float>> values) {
    request.act = act;
    request.name = name;
    for (auto& each : values) request.tensors.push_back({Element::f32, {each.size()}});
    out = in = std::move(values);
  }
  SharedExchange made(Loop& loop) {
    std::vector<NamedExchange::Place> places;
    for (std::size_t i = 0; i < in.size(); ++i) places.push_back({in[i], out[i]});
    exchange = std::make_shared<NamedExchange>(loop, request, places);
    return exchange;
  }
  std::vector<float> gathered(std::size_t i = 0) const {
    const Gathered& memory = exchange->gathered[i];
    std::vector<float> values(memory.bytes / sizeof(float));
    std::copy_n(memory.memory.get(), memory.bytes,
                std::as_writable_bytes(std::span(values)).begin());
    return values;
  }
};

// Asks for all of it, one after the other in that order, some of them together, and waits for all.
Task<> ask_for(Comm& comm, std::vector<Side>& sides, Random& random) {
  NamedExchanges named(comm, kLimits);
  std::vector<SharedExchange> all;
  for (std::size_t at = 0; at < sides.size();) {
    std::vector<SharedExchange> together;
    for (std::size_t left = 1 + random.below(4); left > 0 && at < sides.size(); --left, ++at) {
      together.push_back(sides[at].made(comm.loop()));
    }
    named.ask(together);
    all.insert(all.end(), together.begin(), together.end());
    co_await sleep_until(comm.loop(),
                         comm.loop().now() + std::chrono::microseconds(random.below(300)));
  }
  co_await NamedExchanges::all_ended(all);
}

float value(int rank, std::size_t which, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 7 + which * 3 + i) % 11);
}

std::vector<float> values(int rank, std::size_t which, std::size_t elements) {
  std::vector<float> all(elements);
  for (std::size_t i = 0; i < elements; ++i) all[i] = value(rank, which, i);
  return all;
}

TEST(NamedExchanges, MeetWhateverTheOrder) {
  for (const int n : kGroupSizes) {
    for (std::uint64_t seed = 0; seed < 5 && World::can_have(n); ++seed) {
      SCOPED_TRACE(testing::Message() << n << " ranks, seed " << seed);
      constexpr std::size_t kCount = 30;
      std::vector<std::vector<Side>> sides(static_cast<std::size_t>(n));
      for (int rank = 0; rank < n; ++rank) {
        for (std::size_t which = 0; which < kCount; ++which) {
          // Some longer than what is fused, some empty.
          const std::size_t elements = which % 7 == 6 ? 3000 : which * 5 % 23;
          Side side(Act::allreduce, fmt::format("x{}", which), {values(rank, which, elements)});
          if (which % 3 == 1) side.request.blend = Blend::max;
          if (which % 5 == 4) side.request.after = 2;
          sides[static_cast<std::size_t>(rank)].push_back(std::move(side));
        }
        Random random{seed, static_cast<std::uint64_t>(rank)};
        auto& own = sides[static_cast<std::size_t>(rank)];
        for (std::size_t i = own.size(); i > 1; --i) std::swap(own[i - 1], own[random.below(i)]);
      }
      World world(n);
      std::vector<Random> randoms;
      for (int rank = 0; rank < n; ++rank)
        randoms.emplace_back(Random{seed, 100u + unsigned(rank)});
      world.run_until_all_have_ended([&](Comm& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        return ask_for(comm, sides[rank], randoms[rank]);
      });
      for (const std::size_t known : world.known()) {
        for (const Side& side : sides[known]) {
          const std::size_t which = std::stoul(side.request.name.substr(1));
          for (std::size_t i = 0; i < side.out[0].size(); ++i) {
            float expected = which % 3 == 1 ? -1.0f : 0.0f;
            for (int rank = 0; rank < n; ++rank) {
              const float x = value(rank, which, i);
              expected = which % 3 == 1 ? std::max(expected, x) : expected + x;
            }
            if (which % 5 == 4) expected *= 2;
            ASSERT_EQ(side.out[0][i], expected) << side.request.name;
          }
        }
      }
    }
  }
}

// The same row of requests round after round; what goes out to whom in the last one.
Task<> rounds_of(Comm& comm, int rounds, std::size_t small_bytes,
                 std::vector<std::uint64_t>& sent) {
  NamedExchanges named(comm, {10s, 4096, small_bytes});
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t before = comm.ledger().total(Direction::sent).payload;
    std::vector<Side> sides;
    std::vector<SharedExchange> all;
    for (std::size_t which = 0; which < 10; ++which) {
      sides.emplace_back(Act::allreduce, fmt::format("a.rather.long.name.of.a.tensor.{}", which),
                         std::vector<std::vector<float>>{{1.0f}});
    }
    for (Side& side : sides) all.push_back(side.made(comm.loop()));
    named.ask(all);
    co_await NamedExchanges::all_ended(all);
    for (const Side& side : sides) EXPECT_EQ(side.out[0][0], static_cast<float>(comm.size()));
    sent.push_back(comm.ledger().total(Direction::sent).payload - before);
  }
}

TEST(SimulatedNamedExchanges, DescribeNothingTwiceAndGoAsOne) {
  const auto sent_by_rank_1 = [](std::size_t small_bytes) {
    std::vector<std::uint64_t> of_rank_0, of_rank_1;
    Cluster cluster(2);
    cluster.run([&](Comm& comm) {
      return rounds_of(comm, 3, small_bytes, comm.rank() == 0 ? of_rank_0 : of_rank_1);
    });
    EXPECT_GT(of_rank_1[0], 10u * 60);
    EXPECT_EQ(of_rank_1[2], of_rank_1[1]);
    return of_rank_1[1];
  };
  // A count, ten numbers, each with the word that no values follow, and one exchange of ten floats.
  EXPECT_EQ(sent_by_rank_1(0), 4 + 10u * (4 + 1) + 10u * 4);
  // Or with ten lengths and floats, and no exchange.
  EXPECT_EQ(sent_by_rank_1(1000), 4 + 10u * (4 + 1) + 10u * (4 + 4));
}

// Each rank asks for one thing of its own making; returns what each known one fails with.
template <class AnyWorld = World>
std::vector<std::string> errors_of(int n, const std::function<Side(int rank)>& side_of) {
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::vector<Side>> sides;
  for (int rank = 0; rank < n; ++rank) sides.push_back({side_of(rank)});
  AnyWorld world(n);
  std::vector<Random> randoms(static_cast<std::size_t>(n), Random{1, 1});
  const auto program = [&](Comm& comm) -> Task<> {
    const auto rank = static_cast<std::size_t>(comm.rank());
    return [](Comm& own, std::vector<Side>& asked, Random& random, std::string& error) -> Task<> {
      try {
        co_await ask_for(own, asked, random);
      } catch (const Error& e) {
        error = e.what();
      }
    }(comm, sides[rank], randoms[rank], errors[rank]);
  };
  if constexpr (std::is_same_v<AnyWorld, World>) {
    world.run_until_all_have_ended(program);
    std::vector<std::string> known;
    for (const std::size_t rank : world.known()) known.push_back(errors[rank]);
    return known;
  } else {
    world.run(program);
    return errors;
  }
}

void expect_everywhere(const std::vector<std::string>& errors,
                       const std::vector<std::string>& parts) {
  for (const std::string& error : errors) {
    for (const std::string& part : parts) {
      EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' lacks '" << part << "'";
    }
  }
}

TEST(NamedExchanges, TellEverybodyWhoDiffersInWhat) {
  for (const int n : {2, 3, 5}) {
    if (!World::can_have(n)) continue;
    const auto last = fmt::format("rank {}", n - 1);
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  return Side(Act::allreduce, "x",
                                              {std::vector<float>(rank == n - 1 ? 4 : 3)});
                                }),
                      {"allreduce 'x'", "[3]", "[4]", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  Side side(Act::allreduce, "x", {{1, 2}});
                                  if (rank == n - 1) side.request.blend = Blend::product;
                                  return side;
                                }),
                      {"sum", "product", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  Side side(Act::allreduce, "x", {{1, 2}});
                                  if (rank == n - 1) side.request.before = 0.5;
                                  return side;
                                }),
                      {"0.5", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  Side side(Act::broadcast, "x", {{1, 2}});
                                  side.request.root = rank;
                                  return side;
                                }),
                      {"root", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  Side side(Act::allgather, "x", {{1, 2}});
                                  side.request.tensors[0].shape = {1, rank == n - 1 ? 2u : 1u};
                                  return side;
                                }),
                      {"[2]", "[1]", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  std::vector<std::vector<float>> two = {{1}, {2}};
                                  if (rank == n - 1) two.pop_back();
                                  return Side(Act::allreduce, "x", two);
                                }),
                      {"2 tensors", "1 tensor", last});
    expect_everywhere(errors_of(n,
                                [&](int rank) {
                                  std::vector<std::vector<float>> many(20, {1});
                                  if (rank == n - 1) many[15] = {1, 2};
                                  return Side(Act::allreduce, "x", many);
                                }),
                      {"20 tensors, from number 16 on", "[1]", "[2]", last});
    expect_everywhere(
        errors_of(n,
                  [&](int rank) {
                    return Side(Act::allreduce, "x", {std::size_t(rank == n - 1 ? 11 : 10), {1}});
                  }),
        {"10 tensors", "11 tensors", "and 3 more", last});
    expect_everywhere(errors_of(n,
                                [&](int) {
                                  Side side(Act::broadcast, "x", {{1, 2}});
                                  side.request.root = n;
                                  return side;
                                }),
                      {"no root"});
    expect_everywhere(errors_of(n,
                                [&](int) {
                                  Side side(Act::alltoall, "x", {{1, 2}});
                                  side.request.splits.assign(static_cast<std::size_t>(n), 2);
                                  return side;
                                }),
                      {"splits"});
  }
}

// Whatever rank 0 says of its own, the others' values are no longer than they are.
TEST(NamedExchanges, ReduceNothingWhereRankZeroHasMoreThanItSays) {
  for (const int n : {2, 3, 5}) {
    if (!World::can_have(n)) continue;
    const auto errors = errors_of(n, [](int rank) {
      Side side(Act::allreduce, "x", {std::vector<float>(rank == 0 ? 4 : 3)});
      side.request.tensors[0].shape = {3};
      return side;
    });
    expect_everywhere(errors, {"allreduce 'x'", "rank 0 has 16 bytes", "others have 12"});
  }
}

TEST(SimulatedNamedExchanges, NameWhoHasNotAskedInTime) {
  const auto errors = errors_of<Cluster>(
      3, [](int rank) { return Side(Act::allreduce, rank == 1 ? "other" : "x", {{1}}); });
  EXPECT_NE(errors[0].find("rank 1 has not asked"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("ranks 0, 2 have not asked"), std::string::npos) << errors[1];
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(NamedExchanges, GatherScatterAndSendRowsOfAnyNumber) {
  for (const int n : kGroupSizes) {
    SCOPED_TRACE(n);
    if (!World::can_have(n)) continue;
    const auto count = static_cast<std::size_t>(n);
    std::vector<std::vector<Side>> sides(count);
    for (int rank = 0; rank < n; ++rank) {
      auto& own = sides[static_cast<std::size_t>(rank)];
      const auto place = static_cast<std::size_t>(rank);
      own.emplace_back(Act::allgather, "g",
                       std::vector<std::vector<float>>{values(rank, 0, place), values(rank, 1, 2)});
      own.emplace_back(Act::broadcast, "b", std::vector<std::vector<float>>{values(rank, 2, 9)});
      own.back().request.root = n / 2;
      own.emplace_back(Act::alltoall, "a",
                       std::vector<std::vector<float>>{values(rank, 3, count * place + 1)});
      own.back().request.splits.assign(count, place);
      own.emplace_back(Act::reducescatter, "r",
                       std::vector<std::vector<float>>{values(rank, 4, count + 2)});
      own.back().request.blend = Blend::mean;
      own.back().out[0].resize((count + 2) / count + (place < (count + 2) % count ? 1 : 0));
      own.emplace_back(Act::barrier, "w", std::vector<std::vector<float>>{});
    }
    World world(n);
    std::vector<Random> randoms(count, Random{2, 2});
    world.run_until_all_have_ended([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return ask_for(comm, sides[rank], randoms[rank]);
    });
    std::vector<float> gathered, second;
    for (int rank = 0; rank < n; ++rank) {
      const auto more = values(rank, 0, static_cast<std::size_t>(rank)), two = values(rank, 1, 2);
      gathered.insert(gathered.end(), more.begin(), more.end());
      second.insert(second.end(), two.begin(), two.end());
    }
    for (const std::size_t rank : world.known()) {
      EXPECT_EQ(sides[rank][0].gathered(0), gathered);
      EXPECT_EQ(sides[rank][0].gathered(1), second);
      EXPECT_EQ(sides[rank][1].out[0], values(n / 2, 2, 9));
      std::vector<float> sent;
      for (std::size_t from = 0; from < count; ++from) {
        const auto theirs = values(static_cast<int>(from), 3, count * from + 1);
        sent.insert(sent.end(), theirs.begin() + static_cast<std::ptrdiff_t>(rank * from),
                    theirs.begin() + static_cast<std::ptrdiff_t>((rank + 1) * from));
        EXPECT_EQ(sides[rank][2].exchange->rows[from], from);
      }
      EXPECT_EQ(sides[rank][2].gathered(), sent);
      std::size_t row = rank * ((count + 2) / count) + std::min(rank, (count + 2) % count);
      for (const float mean : sides[rank][3].out[0]) {
        float sum = 0;
        for (int from = 0; from < n; ++from) sum += value(from, 4, row);
        EXPECT_FLOAT_EQ(mean, sum / static_cast<float>(n));
        ++row;
      }
    }
  }
}

// Rank r has r + 1 rounds; who has none left joins.
Task<> uneven_rounds(Comm& comm, std::uint64_t& last) {
  NamedExchanges named(comm, kLimits);
  const int n = comm.size();
  for (int round = 0; round <= comm.rank(); ++round) {
    Side side(Act::allreduce, "x", {{static_cast<float>(comm.rank() + 1)}});
    side.request.blend = round % 2 == 0 ? Blend::mean : Blend::min;
    const std::vector<SharedExchange> asked = {side.made(comm.loop())};
    named.ask(asked);
    co_await NamedExchanges::all_ended(asked);
    float sum = 0;
    for (int rank = round; rank < n; ++rank) sum += static_cast<float>(rank + 1);
    const float expected =
        round % 2 == 0 ? sum / static_cast<float>(n) : static_cast<float>(round + 1);
    EXPECT_FLOAT_EQ(side.out[0][0], expected) << "round " << round << " of rank " << comm.rank();
  }
  Side join(Act::join, "", {});
  const std::vector<SharedExchange> joining = {join.made(comm.loop())};
  named.ask(joining);
  co_await NamedExchanges::all_ended(joining);
  last = joining[0]->rows.at(0);
  // After which all are there again.
  Side side(Act::allreduce, "x", {{1}});
  const std::vector<SharedExchange> asked = {side.made(comm.loop())};
  named.ask(asked);
  co_await NamedExchanges::all_ended(asked);
  EXPECT_EQ(side.out[0][0], static_cast<float>(n));
}

TEST(NamedExchanges, DoWithoutThoseWhoHaveJoined) {
  for (const int n : kGroupSizes) {
    if (!World::can_have(n)) continue;
    std::vector<std::uint64_t> last(static_cast<std::size_t>(n), 99);
    World world(n);
    world.run_until_all_have_ended([&](Comm& comm) {
      return uneven_rounds(comm, last[static_cast<std::size_t>(comm.rank())]);
    });
    for (const std::size_t rank : world.known()) {
      EXPECT_EQ(last[rank], static_cast<std::uint64_t>(n - 1));
    }
  }
}

Task<> gather_beside_a_join(Comm& comm, std::string& error) {
  NamedExchanges named(comm, kLimits);
  if (comm.rank() > 0) {
    Side side(Act::allgather, "g", {{1}});
    const std::vector<SharedExchange> asked = {side.made(comm.loop())};
    named.ask(asked);
    try {
      co_await NamedExchanges::all_ended(asked);
    } catch (const Error& e) {
      error = e.what();
    }
  }
  Side join(Act::join, "", {});
  const std::vector<SharedExchange> joining = {join.made(comm.loop())};
  named.ask(joining);
  co_await NamedExchanges::all_ended(joining);
}

TEST(NamedExchanges, RefuseOtherThanAllreducesWhereSomebodyHasJoined) {
  if (!World::can_have(3)) return;
  std::vector<std::string> errors(3);
  World world(3);
  world.run_until_all_have_ended([&](Comm& comm) {
    return gather_beside_a_join(comm, errors[static_cast<std::size_t>(comm.rank())]);
  });
  for (const std::size_t rank : world.known()) {
    if (rank == 0) continue;
    EXPECT_NE(errors[rank].find("rank 0 has joined"), std::string::npos) << errors[rank];
  }
}

Task<> ask_alone(Comm& comm, std::string& error, int leaver) {
  NamedExchanges named(comm, kLimits);
  if (comm.rank() == leaver) {
    co_await sleep_until(comm.loop(), comm.loop().now() + 10ms);
    co_return;
  }
  Side side(Act::allreduce, "x", {{1}});
  const std::vector<SharedExchange> asked = {side.made(comm.loop())};
  named.ask(asked);
  try {
    co_await NamedExchanges::all_ended(asked);
  } catch (const Error& e) {
    error = e.what();
  }
}

TEST(SimulatedNamedExchanges, FailWithWhoeverIsLostOrLeaves) {
  for (const int n : {2, 3, 5}) {
    for (const int leaver : {0, n - 1}) {
      for (const bool dies : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << n << " ranks, " << leaver << (dies ? " dies" : " leaves"));
        std::vector<std::string> errors(static_cast<std::size_t>(n));
        Cluster cluster(n);
        if (dies) cluster.crash(leaver, 5ms);
        const auto program = [&](Comm& comm) {
          return ask_alone(comm, errors[static_cast<std::size_t>(comm.rank())], leaver);
        };
        for (const auto& error : cluster.live(program)) EXPECT_EQ(words_of(error), "");
        for (int rank = 0; rank < n; ++rank) {
          if (rank == leaver) continue;
          EXPECT_NE(errors[static_cast<std::size_t>(rank)].find(fmt::format("rank {}", leaver)),
                    std::string::npos)
              << errors[static_cast<std::size_t>(rank)];
        }
      }
    }
  }
}

TEST(NamedRequest, IsTheSameAfterTheWire) {
  NamedRequest request;
  request.act = Act::alltoall;
  request.name = "layer.0";
  request.blend = Blend::adasum;
  request.root = -3;
  request.before = 0.25;
  request.tensors = {{Element::bf16, {3, 0, 5}}, {Element::i64, {}}};
  request.splits = {1, 0, 2};
  EXPECT_EQ(decode_request(encode(request)), request);
}

TEST(NamedRequest, RefusesWhatNobodyCouldMean) {
  NamedRequest request;
  request.name = "x";
  request.tensors = {{Element::f32, {2, 3}}};
  request.splits = {7};
  const std::vector<std::byte> good = encode(request);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(decode_request(ConstBytes(good).first(length)), Error) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode_request(longer), Error);
  Random random{3, 3};
  for (int i = 0; i < 20000; ++i) {  // any bytes: refused, or a request that is within bounds
    std::vector<std::byte> noise = good;
    for (int flips = 0; flips < 3; ++flips) {
      noise[random.below(noise.size())] = static_cast<std::byte>(random.below(256));
    }
    try {
      check(decode_request(noise));
    } catch (const Error&) {
    }
  }
  request.tensors = {{Element::f32, {1ull << 40, 1ull << 40}}};
  EXPECT_THROW(decode_request(encode(request)), Error);
}

// The plain formula, pair by pair.
std::vector<double> plain_adasum(std::vector<std::vector<double>> all) {
  const auto pair = [](const std::vector<double>& a, const std::vector<double>& b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
    std::vector<double> sum(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum[i] = (aa > 0 ? 1 - ab / aa / 2 : 1) * a[i] + (bb > 0 ? 1 - ab / bb / 2 : 1) * b[i];
    }
    return sum;
  };
  std::size_t power = 1;
  while (power * 2 <= all.size()) power *= 2;
  const std::size_t extra = all.size() - power;
  std::vector<std::vector<double>> row;
  for (std::size_t i = 0; i < extra; ++i) row.push_back(pair(all[2 * i], all[2 * i + 1]));
  for (std::size_t i = 2 * extra; i < all.size(); ++i) row.push_back(all[i]);
  while (row.size() > 1) {
    std::vector<std::vector<double>> half;
    for (std::size_t i = 0; i < row.size(); i += 2) half.push_back(pair(row[i], row[i + 1]));
    row = half;
  }
  return row[0];
}

TEST(Adasum, IsThePlainFormulaPairByPair) {
  for (const int n : kGroupSizes) {
    for (const std::size_t length : {0u, 1u, 100u}) {
      if (!World::can_have(n)) continue;
      std::vector<std::vector<double>> all(static_cast<std::size_t>(n),
                                           std::vector<double>(length));
      Random random{9, static_cast<std::uint64_t>(n)};
      for (auto& each : all) {
        for (double& x : each) x = static_cast<double>(random.below(1000)) / 500 - 1;
      }
      const std::vector<double> expected = plain_adasum(all);
      World world(n);
      world.run([&](Comm& comm) {
        return adasum(comm, Channel{1, Purpose::gradients},
                      all[static_cast<std::size_t>(comm.rank())]);
      });
      world.tell_all(all);
      for (const auto& each : all) {
        EXPECT_EQ(each, all[0]) << "the same bits everywhere";
        for (std::size_t i = 0; i < length; ++i) EXPECT_NEAR(each[i], expected[i], 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace starling
