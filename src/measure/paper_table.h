// Tables 1 and 2 of S. Chundury, Distributed Learning using Iterative Pair-wise Averaging (2022): what
// it ran, and what it measured of that.
#pragma once

#include <vector>

namespace starling {

struct PaperConfiguration {
  int workers;
  int passes;
  int iterations;
};

// Table 1: for each number of workers, every number of passes with every number of iterations.
inline std::vector<PaperConfiguration> paper_configurations() {
  struct Row {
    int workers;
    std::vector<int> iterations;  // passes go from 1 to workers - 1
  };
  const std::vector<Row> rows = {
      {2, {12}}, {3, {12, 15}}, {4, {12, 15, 18}}, {5, {12, 15, 18, 21}}, {6, {12, 15, 18, 24}}};
  std::vector<PaperConfiguration> all;
  for (const Row& row : rows) {
    for (int passes = 1; passes < row.workers; ++passes) {
      for (int iterations : row.iterations) all.push_back({row.workers, passes, iterations});
    }
  }
  return all;
}

struct PaperRow {
  int workers;
  int passes;  // as many as workers: all-reduce
  int iterations;
  double terabytes;
  double accuracy;
};

inline std::vector<PaperRow> paper_table() {
  return {
      {2, 2, 12, 105.59545628547289, 0.9581}, {2, 1, 15, 105.5264167976342, 0.9683},
      {3, 3, 12, 105.37346571922211, 0.9143}, {3, 2, 15, 105.29663928031844, 0.9185},
      {3, 1, 18, 105.03285879135152, 0.9541}, {4, 4, 12, 104.32535861968955, 0.7849},
      {4, 3, 15, 104.25853464126584, 0.8727}, {4, 2, 18, 104.02306207656859, 0.8902},
      {4, 1, 21, 103.29913792610171, 0.9038}, {5, 5, 12, 125.59344117164736, 0.80334},
      {5, 4, 15, 101.99513598442127, 0.9070}, {5, 3, 18, 101.59431415558072, 0.8910},
      {5, 2, 21, 101.17704673767324, 0.8972}, {5, 1, 24, 100.21186826706173, 0.8923},
      {6, 6, 12, 107.1364613914505, 0.6687},  {6, 5, 15, 98.37390358925066, 0.9009},
      {6, 4, 18, 98.01313048362785, 0.9040},  {6, 3, 21, 97.18158767700298, 0.9197},
      {6, 2, 24, 96.22509217262373, 0.8645},  {6, 1, 27, 94.74648439407457, 0.9443},
  };
}

}  // namespace starling
