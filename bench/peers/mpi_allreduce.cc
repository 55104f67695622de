// Yardstick: the float32 sum all-reduce of the MPI that it is built with. `starling bench exchange
// --transport mpi` starts it as that MPI moves bytes if left to itself. Open MPI over TCP on loopback,
// for four ranks:
//
//   mpirun --quiet --allow-run-as-root --oversubscribe --bind-to none -n 4
//     --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo starling-peer-mpi
//
// Left to itself, Open MPI uses shared memory inside a host. "pml ob1" keeps it off UCX and
// libfabric, and "btl tcp,self" leaves ob1 nothing but sockets. Of its collective components only
// "sm" would go around them, and that is off unless asked for. "--oversubscribe" also makes waiting
// ranks yield when there are more of them than cores, and "--quiet" keeps a failed run to our own
// line. Rank 0 prints a line of JSON a size.
#include <mpi.h>

#include <exception>

#include "allreduce_yardstick.h"

namespace {

#ifdef OPEN_MPI
constexpr const char* kName = "openmpi";
#elif defined(MPICH)
constexpr const char* kName = "mpich";
#else
constexpr const char* kName = "mpi";
#endif

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int size_of_world() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// MPI's calls need no status check: its default error handler aborts the job with a message.
class MpiPeer : public yardstick::Peer {
 public:
  MpiPeer() : Peer(rank_of_world(), size_of_world()) {}

  std::function<void()> bind_all_reduce(std::span<float> buffer) override {
    return [buffer] {
      MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    };
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  std::int64_t value_of_rank_0(std::int64_t value) override {
    MPI_Bcast(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return value;
  }
};

}  // namespace

int main(int argc, char** argv) {
  yardstick::Options options;
  CLI::App app{"Times MPI's float32 sum all-reduce. Start it with mpirun."};
  yardstick::add_options(app, options);

  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    app.parse(argc, argv);
    MpiPeer peer;
    yardstick::run(peer, options, kName, "default");
  } catch (const CLI::ParseError& error) {
    // Every rank sees the same arguments; one of them is enough to speak.
    status = error.get_exit_code() == 0 ? 0 : 1;
    if (rank_of_world() == 0 && status == 0) app.exit(error);
    if (rank_of_world() == 0 && status != 0) {
      fmt::print(stderr, "starling-peer-mpi: {}\n", error.what());
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "starling-peer-mpi: {}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
