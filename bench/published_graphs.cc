// SPDX-License-Identifier: Apache-2.0
#include "bench/published_graphs.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "bench/graph_laws.h"
#include "engine/base/error.h"

namespace vicinal::bench {
namespace {

struct Recipe {
  std::string_view name;
  std::variant<CommunitiesLaw, PapersLaw, WebLaw, RoadsLaw, MoleculesLaw, FoldsLaw, FanLaw, RmatLaw, NearCompleteLaw>
      law;
};

const Recipe kRecipes[] = {
    {"cora", CommunitiesLaw{2708, 10556, 1.040, 7, 0.81, 2.6, 40}},
    {"citeseer", CommunitiesLaw{3327, 9104, 1.030, 6, 0.74, 2.6, 35}},
    {"pubmed", CommunitiesLaw{19717, 88648, 1.010, 3, 0.80, 2.6, 38}},
    {"artist", CommunitiesLaw{50515, 1638396, 1.02, 20, 0.5, 2.8, 45}},
    {"blogcatalog", CommunitiesLaw{88784, 2093195, 1.195, 39, 0.4, 2.1, 250}},
    {"amazon0505", CommunitiesLaw{410236, 4878874, 1.17, 1500, 0.85, 2.6, 230}},
    {"amazon0505-ord", CommunitiesLaw{410236, 4878874, 1.17, 1500, 0.85, 2.6, 230, false}},
    {"reddit", CommunitiesLaw{232965, 114615892, 1.285, 41, 0.78, 2.4, 44}},
    {"proteins", CommunitiesLaw{132534, 79122504, 1.183, 60, 0.7, 3.0, 13}},
    {"rand-100K", FanLaw{100000}},
    {"rand-100K-out", FanLaw{100000, true}},
    {"rmat5", RmatLaw{10240, 10500000, 1.6}},
    {"molecules", MoleculesLaw{1900000}},
    {"mann-a81", NearCompleteLaw{3321}},
    {"amazon-photo", CommunitiesLaw{7650, 238162, 1.31, 8, 0.83, 2.2, 60}},
    {"amazon-computers", CommunitiesLaw{13752, 491722, 1.434, 10, 0.78, 2.1, 120}},
    {"coauthor-physics", PapersLaw{34493, 52700, 1.7, 12, 900, 0.8, 2.6, 45}},
    {"com-dblp", PapersLaw{317080, 335100, 1.2, 12, 12000, 0.8, 2.5, 110}},
    {"cnr-2000", WebLaw{325557, 3216152, 1.191, 700, 0.5, 0.88, 2.0, 7000, 2.5, 330}},
    {"eu-2005", WebLaw{862664, 19235140, 1.2196, 400, 0.5, 0.9, 2.0, 8000, 2.5, 380}},
    {"road-bay", RoadsLaw{321270, 400086, true}},
    {"roadnet-pa", RoadsLaw{1088092, 1541898}},
    {"ogbg-molhiv", MoleculesLaw{1049163, 6, 45, 0.146}},
    {"tu-proteins", FoldsLaw{43471, 4, 74, 2}},
    {"flickr", CommunitiesLaw{7575, 479476, 1.13, 9, 0.24, 2.2, 25}},
};

}  // namespace

std::vector<std::string> PublishedGraphNames() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

StatusOr<BinaryGraph> MakePublishedGraph(std::string_view name, ThreadPool& pool, int64_t edges) {
  std::string known;
  for (Recipe recipe : kRecipes) {
    if (recipe.name == name) {
      auto* const communities = std::get_if<CommunitiesLaw>(&recipe.law);
      if (edges != 0 && communities == nullptr) {
        return InvalidArgument("FIXED_SIZE", "edges",
                               absl::StrCat("the edges of '", std::string(name), "' cannot be chosen"));
      }
      if (edges != 0) communities->edges = edges;
      return std::visit([&pool](const auto& law) { return Draw(law, pool); }, recipe.law);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(recipe.name));
  }
  return InvalidArgument("UNKNOWN_GRAPH", "graph",
                         absl::StrCat("there is no graph '", std::string(name), "'; there are: ", known));
}

}  // namespace vicinal::bench
