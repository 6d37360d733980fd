// SPDX-License-Identifier: Apache-2.0
// Prints resources as text: graphs, profiles, feature sets, models.
#ifndef VICINAL_CLIENT_CPP_CLI_DESCRIBE_H_
#define VICINAL_CLIENT_CPP_CLI_DESCRIBE_H_

#include <ostream>
#include <string>
#include <vector>

#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"

namespace vicinal::client::cli {

// Everything about a graph: the first lines of its summary, stages, profile, feature sets.
void PrintGraph(const v1::Graph& graph, std::ostream& out);
// The summary: state, version, sizes, order, preparation time, feature sets.
void PrintGraphSummary(const v1::Graph& graph, std::ostream& out);
void PrintGraphs(const std::vector<v1::Graph>& graphs, std::ostream& out);
// The part of PrintGraph about degrees and locality.
void PrintProfile(const v1::Graph& graph, std::ostream& out);
void PrintFeatureSets(const std::vector<v1::FeatureSet>& sets, std::ostream& out);
void PrintEdgeFeatureSets(const std::vector<v1::FeatureSet>& sets, std::ostream& out);  // nothing if there are none
void PrintModel(const v1::Model& model, std::ostream& out);
void PrintModels(const std::vector<v1::Model>& models, std::ostream& out);

// "cora v1 (features default v1), cora-gcn v1, numerics revision 1"
std::string Served(const v1::ServedBy& served);

// STATE_READY gives "READY".
std::string StateName(v1::Graph::State state);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_DESCRIBE_H_
