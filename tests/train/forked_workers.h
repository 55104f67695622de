// A test's workers as processes of their own, which join over loopback TCP.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "train/dist.h"

namespace starling {

// Runs `work` in as many processes as there are workers and returns what each wrote to its results.
class Workers {
 public:
  static constexpr std::size_t kMaxFloats = 1 << 20;
  using Work = std::function<void(const Job&, std::span<float> results)>;

  static std::vector<std::vector<float>> run(int size, std::size_t floats, const Work& work) {
    auto* shared =
        static_cast<float*>(::mmap(nullptr, kMaxFloats * sizeof(float), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const auto results = [&](int rank) {
      return std::span<float>(shared + static_cast<std::size_t>(rank) * floats, floats);
    };
    TcpLoop loop;
    auto listener = listen_on_loopback(loop);
    Job job;
    job.size = job.local_size = size;
    job.rendezvous = "127.0.0.1:" + std::to_string(listener.local_endpoint().port());
    job.secret = "secret";
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        job.rank = rank;
        if (rank == 0) job.listen_fd = listener.native_handle();
        try {
          at::set_num_threads(1);
          work(job, results(rank));
          ::_exit(0);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
          ::_exit(1);
        }
      }
      children.push_back(child);
    }
    for (pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    std::vector<std::vector<float>> all;
    for (int rank = 0; rank < size; ++rank)
      all.emplace_back(results(rank).begin(), results(rank).end());
    ::munmap(shared, kMaxFloats * sizeof(float));
    return all;
  }
};

// Memory that the forked workers of a test share.
template <class T>
class Shared {
 public:
  Shared()
      : value_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                           -1, 0)) T()) {}
  ~Shared() { ::munmap(value_, sizeof(T)); }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

}  // namespace starling
