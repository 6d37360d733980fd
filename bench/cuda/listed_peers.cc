// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/listed_peers.h"

namespace vicinal::bench {
namespace {

struct Row {
  std::string_view graph;
  int64_t width;
  double cusparse_us;  // sum, weighted, best algorithm
  // In the order of Listed: for the weighted sum the best of cuSPARSE, GE-SpMM, dgSPARSE, GNNAdvisor, Sputnik, RoDe,
  // HP-SpMM and torch_sparse; the best peer for max and for the dot product of each edge; the best fused peer for GAT
  // with one head and with four. 0: not measured.
  double best_us[5];
};

constexpr Row kRows[] = {
    {"cora", 16, 11.4, {4.0, 0, 0, 0, 0}},
    {"cora", 32, 6.8, {4.0, 0, 0, 0, 0}},
    {"cora", 64, 7.5, {5.0, 7.0, 2.2, 13.5, 10.2}},
    {"cora", 128, 8.6, {5.6, 7.5, 3.0, 9.6, 10.2}},
    {"cora", 256, 9.1, {6.6, 8.3, 4.5, 12.3, 16.3}},
    {"cora", 512, 11.1, {9.9, 0, 0, 0, 0}},
    {"citeseer", 16, 5.9, {3.8, 0, 0, 0, 0}},
    {"citeseer", 32, 6.2, {4.0, 0, 0, 0, 0}},
    {"citeseer", 64, 6.9, {4.3, 6.1, 2.2, 11.6, 9.8}},
    {"citeseer", 128, 8.3, {4.7, 6.6, 3.0, 9.6, 9.8}},
    {"citeseer", 256, 9.4, {6.7, 7.6, 4.5, 12.4, 14.9}},
    {"citeseer", 512, 13.2, {11.2, 0, 0, 0, 0}},
    {"pubmed", 16, 11.2, {6.4, 0, 0, 0, 0}},
    {"pubmed", 32, 11.3, {7.2, 0, 0, 0, 0}},
    {"pubmed", 64, 12.5, {8.9, 15.4, 5.6, 29.0, 35.0}},
    {"pubmed", 128, 16.5, {16.1, 22.3, 8.4, 33.1, 37.3}},
    {"pubmed", 256, 28.1, {26.1, 31.2, 18.6, 82.7, 61.5}},
    {"pubmed", 512, 48.9, {47.4, 0, 0, 0, 0}},
    {"reddit", 64, 3635.6, {3197.4, 4241.5, 4347.1, 9957.1, 75851.8}},
    {"reddit", 128, 7685.2, {6341.0, 7530.3, 8980.4, 18767.3, 24649.4}},
    {"proteins", 64, 2288.4, {2185.0, 2510.5, 2967.2, 5194.5, 17013.2}},
    {"proteins", 128, 4648.0, {4352.9, 4688.0, 5521.0, 11458.4, 14698.7}},
    {"rand-100K", 32, 725.1, {520.0, 0, 0, 0, 0}},
    {"rand-100K", 128, 3204.1, {2256.5, 3315.2, 3060.1, 5852.3, 8610.9}},
    {"amazon0505", 16, 150.3, {107.1, 0, 0, 0, 0}},
    {"amazon0505", 32, 164.4, {139.4, 0, 0, 0, 0}},
    {"amazon0505", 64, 345.3, {259.8, 314.9, 240.5, 565.7, 945.0}},
    {"amazon0505", 128, 666.2, {513.1, 550.3, 500.6, 846.7, 1012.9}},
    {"amazon0505", 256, 1327.1, {1017.0, 1024.0, 1088.1, 1740.7, 1871.4}},
    {"amazon0505", 512, 2651.6, {2024.2, 0, 0, 0, 0}},
    {"blogcatalog", 16, 36.0, {36.0, 0, 0, 0, 0}},
    {"blogcatalog", 32, 41.7, {38.9, 0, 0, 0, 0}},
    {"blogcatalog", 64, 85.5, {71.4, 152.1, 83.0, 796.7, 784.6}},
    {"blogcatalog", 128, 159.1, {136.6, 250.1, 123.4, 1160.3, 690.6}},
    {"blogcatalog", 256, 312.5, {262.4, 487.2, 257.9, 1701.4, 1675.7}},
    {"blogcatalog", 512, 616.7, {514.3, 0, 0, 0, 0}},
    {"artist", 16, 21.9, {21.9, 0, 0, 0, 0}},
    {"artist", 32, 29.4, {29.4, 0, 0, 0, 0}},
    {"artist", 64, 58.9, {55.0, 98.7, 65.4, 245.2, 268.4}},
    {"artist", 128, 117.5, {104.4, 161.4, 100.2, 249.5, 279.0}},
    {"artist", 256, 230.4, {201.2, 288.1, 204.6, 897.3, 542.6}},
    {"artist", 512, 455.7, {391.1, 0, 0, 0, 0}},
    {"rmat5", 16, 130.7, {130.7, 0, 0, 0, 0}},
    {"rmat5", 32, 136.6, {118.6, 0, 0, 0, 0}},
    {"rmat5", 64, 213.1, {213.1, 320.1, 283.1, 764.5, 2818.5}},
    {"rmat5", 128, 412.8, {406.1, 484.7, 506.1, 1372.0, 1963.6}},
    {"rmat5", 256, 811.6, {752.1, 869.0, 1010.3, 3544.0, 2665.4}},
    {"rmat5", 512, 1617.9, {1463.0, 0, 0, 0, 0}},
    {"amazon0505-ord", 64, 346.6, {197.1, 253.4, 187.1, 493.9, 990.7}},
    {"amazon0505-ord", 128, 417.2, {385.8, 424.6, 300.5, 704.0, 894.7}},
    {"amazon0505-rabbit", 64, 343.3, {195.8, 249.8, 187.2, 487.6, 876.9}},
    {"amazon0505-rabbit", 128, 425.8, {383.4, 420.5, 306.2, 691.4, 903.9}},
    {"molecules", 32, 398.5, {285.4, 0, 0, 0, 0}},
    {"molecules", 64, 477.3, {477.3, 518.6, 242.6, 942.9, 2628.9}},
    {"molecules", 128, 809.1, {809.1, 1031.7, 459.1, 916.4, 2721.0}},
};

}  // namespace

std::optional<double> ListedShareOfCusparse(std::string_view graph, int64_t width, Listed listed) {
  if (listed == Listed::kNothing) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.graph != graph || row.width != width) continue;
    const double best = row.best_us[static_cast<int>(listed)];
    return best > 0 ? std::optional<double>(best / row.cusparse_us) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace vicinal::bench
