// SPDX-License-Identifier: Apache-2.0
// A graph's profile as tables: degrees and communities in sentences, what renumbering changed side by side.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/output.h"

namespace vicinal::client::cli {
namespace {

const char* YesNo(bool value) { return value ? "yes" : "no"; }

void PrintDegrees(const v1::GraphProfile& profile, std::ostream& out) {
  out << "in-degree: mean " << FormatFixed(profile.mean_degree(), 2) << ", deviation "
      << FormatFixed(profile.degree_deviation(), 2);
  if (profile.degree_quantiles_size() == 3) {
    out << ", median " << profile.degree_quantiles(0) << ", 90 % " << profile.degree_quantiles(1) << ", 99 % "
        << profile.degree_quantiles(2);
  }
  out << ", largest " << profile.max_degree() << '\n'
      << "isolated nodes " << profile.isolated_node_count() << ", self-loops " << profile.self_loop_count()
      << ", duplicate edges " << profile.duplicate_edge_count() << ", symmetric " << YesNo(profile.symmetric()) << '\n';
}

void PrintCommunities(const v1::CommunityProfile& communities, std::ostream& out) {
  out << "communities: " << communities.community_count() << ", modularity " << FormatFixed(communities.modularity(), 3)
      << ", " << FormatShare(communities.inside()) << " of the edges inside; nodes: mean "
      << FormatFixed(communities.mean_size(), 1);
  if (communities.size_quantiles_size() == 3) {
    out << ", median " << communities.size_quantiles(0) << ", 90 % " << communities.size_quantiles(1) << ", 99 % "
        << communities.size_quantiles(2);
  }
  out << ", largest " << communities.max_size() << '\n';
}

// "1/256" of 0.00390625.
std::string Fraction(double density) {
  return density > 0 && density < 1 ? absl::StrCat("1/", FormatNumber(1 / density)) : FormatNumber(density);
}

std::string ClassName(const v1::GraphProfile& profile, int i) {
  if (i == 0) return absl::StrCat("below ", Fraction(profile.density_bounds(0)));
  const std::string from = Fraction(profile.density_bounds(i - 1));
  if (i == profile.density_bounds_size()) return absl::StrCat("from ", from);
  return absl::StrCat("from ", from, " to ", Fraction(profile.density_bounds(i)));
}

std::string ShareAt(const google::protobuf::RepeatedField<double>& shares, int i) {
  return i < shares.size() ? FormatShare(shares[i]) : "-";
}

void PrintLocality(const v1::GraphProfile& profile, std::ostream& out) {
  Table table({"profile", "before renumbering", "after"});
  table.Add({absl::StrCat("edges inside a window of ", profile.window()), FormatShare(profile.inside_window_before()),
             FormatShare(profile.inside_window_after())});
  if (profile.has_communities()) {
    table.Add({"  and inside a community", FormatShare(profile.before().inside_window_and_community()),
               FormatShare(profile.after().inside_window_and_community())});
  }
  table.Add({"mean |source - target|", FormatFixed(profile.mean_span_before(), 1),
             FormatFixed(profile.mean_span_after(), 1)});
  const int widths = std::min(profile.before().reuse_size(), profile.after().reuse_size());
  for (int i = 0; i < widths; ++i) {
    const v1::ReuseEstimate &before = profile.before().reuse(i), &after = profile.after().reuse(i);
    const auto cell = [](const v1::ReuseEstimate& reuse) {
      return absl::StrCat(FormatShare(reuse.l2()), ", ", FormatShare(reuse.llc()));
    };
    table.Add({absl::StrCat("reuse at width ", before.width(), ": L2, last cache"), cell(before), cell(after)});
  }
  table.Print(out);
}

void PrintDensities(const v1::GraphProfile& profile, std::ostream& out) {
  const bool communities = profile.has_communities();
  const std::string tile = absl::StrCat(profile.density_tile());
  std::vector<std::string> titles = {"edges by density of", tile + "x" + tile + " tiles before", "after"};
  if (communities) titles.push_back("communities");
  Table table(titles);
  for (int i = 0; i <= profile.density_bounds_size(); ++i) {
    std::vector<std::string> row = {ClassName(profile, i), ShareAt(profile.before().tile_density_shares(), i),
                                    ShareAt(profile.after().tile_density_shares(), i)};
    if (communities) row.push_back(ShareAt(profile.communities().density_shares(), i));
    table.Add(std::move(row));
  }
  table.Print(out);
}

}  // namespace

void PrintProfile(const v1::Graph& graph, std::ostream& out) {
  const v1::GraphProfile& profile = graph.profile();
  PrintDegrees(profile, out);
  if (profile.has_communities()) PrintCommunities(profile.communities(), out);
  out << '\n';
  PrintLocality(profile, out);
  if (profile.density_bounds_size() == 0) return;
  out << '\n';
  PrintDensities(profile, out);
}

}  // namespace vicinal::client::cli
