// Runs tests in each process of an mpirun: all in the same order, each for its own rank.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "exchange/collectives.h"
#include "net/mpi_comm.h"
#include "runtime/race.h"
#include "tests/mpi/mpi_world.h"

namespace starling {

namespace {

struct Joined {
  TcpLoop loop;
  std::unique_ptr<ProcessComm> comm = join_mpi(loop, std::chrono::seconds(60));
};
std::unique_ptr<Joined> joined;

}  // namespace

ProcessComm& mpi_world() { return *joined->comm; }

void run_over_mpi(Task<> task) {
  TcpLoop& loop = joined->loop;
  loop.run(within(loop, loop.now() + std::chrono::seconds(120), "the test", std::move(task)));
}

constexpr Channel kTelling{9, Purpose::control};

void meet_over_mpi() { run_over_mpi(barrier(mpi_world(), kTelling)); }

void tell_over_mpi(int rank, Bytes bytes) {
  const Vector values(Element::u8, bytes.data(), bytes.size());
  run_over_mpi(broadcast(mpi_world(), kTelling, values, rank));
}

Time time_of_this_machine() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace starling

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  starling::joined = std::make_unique<starling::Joined>();
  if (starling::mpi_world().rank() > 0)
    testing::GTEST_FLAG(brief) = true;  // one tells what goes well
  const int result = RUN_ALL_TESTS();
  starling::joined.reset();
  return result;
}
